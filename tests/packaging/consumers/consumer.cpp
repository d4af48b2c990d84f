// The header as C++ sees it: linkage, constants, and the structs as plain data.
#include <gdn/gdn.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <type_traits>

static_assert(std::is_standard_layout<gdn_gated_delta_net_args>::value, "arguments must be plain data");
static_assert(std::is_trivial<gdn_context_desc>::value, "descriptions must be plain data");

// What GDN_INIT gives in C++ is what the library's function writes. Every byte is compared, so both begin with others.
template <class type> static bool same_defaults(const char *name)
{
    type here, there;
    std::memset(&here, 0x55, sizeof here);
    std::memset(&there, 0xaa, sizeof there);
    here = GDN_INIT(type);
    const gdn_status status = gdn_struct_init(name, &there, static_cast<uint32_t>(sizeof there));
    const bool same = status == GDN_OK && std::memcmp(&here, &there, sizeof here) == 0;
    if (!same) std::fprintf(stderr, "%s: GDN_INIT and the function differ\n", name);
    return same;
}

int main()
{
    if (!same_defaults<gdn_gated_delta_net_args>("gdn_gated_delta_net_args") ||
        !same_defaults<gdn_delta_inputs>("gdn_delta_inputs") ||
        !same_defaults<gdn_set_rows_args>("gdn_set_rows_args") ||
        !same_defaults<gdn_ssm_conv_args>("gdn_ssm_conv_args") || !same_defaults<gdn_context_desc>("gdn_context_desc"))
        return 1;
    gdn_context_desc desc = {};
    desc.size = sizeof desc;
    desc.backend = GDN_BACKEND_REFERENCE;
    gdn_context *raw = nullptr;
    if (gdn_context_create(&desc, &raw) != GDN_OK) {
        std::fprintf(stderr, "gdn_context_create: %s\n", gdn_last_error());
        return 1;
    }
    std::unique_ptr<gdn_context, void (*)(gdn_context *)> ctx(raw, gdn_context_destroy);

    gdn_ssm_conv_args args = GDN_INIT(gdn_ssm_conv_args);
    args.n_seqs = args.n_tokens = 1;
    args.n_channels = args.kernel_width = 4;
    gdn_capability capability = {};
    capability.size = sizeof capability;
    if (gdn_ssm_conv_query(ctx.get(), &args, &capability) != GDN_OK || !capability.supported || !capability.exact) {
        std::fprintf(stderr, "gdn_ssm_conv_query: %s %s\n", gdn_last_error(), capability.reason);
        return 1;
    }
    std::printf("ok, libgdn %u.%u.%u, %s\n", gdn_version() >> 16, gdn_version() >> 8 & 255, gdn_version() & 255,
                capability.implementation);
    return 0;
}
