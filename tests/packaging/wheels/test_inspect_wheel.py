#!/usr/bin/env python3
"""scripts/inspect_wheel.py notices what is wrong with a wheel: small libraries with the headers' functions, in wheels of their own.

GDN_ZIG names zig, which compiles for each system. Without it there is cc, for the system of this machine alone, Linux.
"""
import base64
import hashlib
import os
import pathlib
import platform
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import inspect_wheel  # noqa: E402

ZIG = os.environ.get("GDN_ZIG")
FUNCTIONS = sorted(inspect_wheel.functions(ROOT / "include/gdn"))
HERE = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}[platform.machine()]
OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}
APPLE = {"x86_64": "x86_64", "aarch64": "arm64"}


class System:
    """One system: how its library is called and compiled, and a wheel's platform for it."""

    def __init__(self, target, platform_tag, other_tag, name):
        self.target, self.platform, self.other, self.name = target, platform_tag, other_tag, name

    def library(self, folder, body="", options=(), leave_out=(), target=None, debug="-g0"):
        """The library's bytes. Of each function that is not left out there is an empty one."""
        source, made = folder / "library.c", folder / self.name
        keyword = "__declspec(dllexport)" if self.name.endswith(".dll") else '__attribute__((visibility("default")))'
        source.write_text(body.replace("EXPORT", keyword) +
                          "".join(f"{keyword} void {name}(void) {{}}\n" for name in FUNCTIONS if name not in leave_out))
        compiler = [ZIG, "cc", "-target", target or self.target, "-fno-sanitize=all"] if ZIG else ["cc"]
        own_name = [f"-Wl,-install_name,@rpath/{self.name}"] if self.name.endswith(".dylib") else []
        subprocess.run([*compiler, debug, "-O1", "-fPIC", "-fvisibility=hidden", "-shared", source.name, "-o", self.name, *own_name, *options],
                       cwd=folder, check=True, stderr=subprocess.DEVNULL if self.name.endswith(".dll") else None)
        return made.read_bytes()


GNU = System(f"{HERE}-linux-gnu.2.17", f"manylinux_2_17_{HERE}" if ZIG else f"manylinux_2_99_{HERE}", f"manylinux_2_17_{OTHER[HERE]}", "libgdn.so")
SYSTEMS = [GNU] + [System(f"{machine}-linux-musl", f"musllinux_1_2_{machine}", f"musllinux_1_2_{OTHER[machine]}", "libgdn.so") for machine in OTHER] + [
    System(f"{machine}-macos.11.0", f"macosx_11_0_{APPLE[machine]}", f"macosx_11_0_{APPLE[OTHER[machine]]}", "libgdn.dylib") for machine in OTHER] + [
    System("x86_64-windows-gnu", "win_amd64", None, "gdn.dll")]
if not ZIG:
    SYSTEMS = [GNU]


def wheel(folder, platform_tag, files, declared=None, record=None):
    """A wheel with these files, {name: bytes}. declared: the platform in WHEEL; record: {name: bytes} as RECORD has them."""
    info = "libgdn-1.dist-info"
    files = {**files, f"{info}/WHEEL": f"Wheel-Version: 1.0\nTag: py3-none-{declared or platform_tag}\n".encode()}
    lines = []
    for name, data in {**files, **(record or {})}.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    made = folder / f"libgdn-1-py3-none-{platform_tag}.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", "".join(lines) + f"{info}/RECORD,,\n")
    return made


def on_each(*names):
    """The test runs on each system whose library is called so, or on all of them."""
    def decorate(test):
        def run(self):
            for system in SYSTEMS:
                if not names or system.name in names:
                    with self.subTest(platform=system.platform):
                        test(self, system)
        return run
    return decorate


class Inspect(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def wrong(self, system, data, platform_tag=None, **options):
        files = {"gdn/__init__.py": b"", f"gdn/{system.name}": data, **options.pop("more", {})}
        made = wheel(self.folder, platform_tag or system.platform, files, **options)
        return "\n".join(inspect_wheel.inspect(made, set(FUNCTIONS), ["/absent/folder"])[0])

    @on_each()
    def test_right(self, system):
        self.assertEqual(self.wrong(system, system.library(self.folder)), "")

    @on_each()
    def test_tags(self, system):
        data = system.library(self.folder)
        self.assertIn("its name says", self.wrong(system, data, declared="linux_x86_64"))
        self.assertIn("not one of the known systems", self.wrong(system, data, platform_tag="linux_x86_64"))
        if system.other:
            self.assertIn("the library is for", self.wrong(system, data, platform_tag=system.other))
        foreign = "macosx_11_0_arm64" if system.name != "libgdn.dylib" else "win_amd64"
        self.assertIn("has to be its only binary", self.wrong(system, data, platform_tag=foreign))

    @on_each()
    def test_exports(self, system):
        data = system.library(self.folder, body="EXPORT void gdn_fail(void) {}\n", leave_out=("gdn_poll",))
        said = self.wrong(system, data)
        self.assertIn("the library exports gdn_fail\n", said + "\n")
        self.assertIn("the library does not export gdn_poll", said)

    @on_each()
    def test_needed(self, system):
        body, options = "int other(void);\nEXPORT void gdn_fail(void) { other(); }\n", ["-L.", "-lother"]
        if system.name == "gdn.dll":
            body, options = "int __stdcall MessageBeep(unsigned);\nEXPORT void gdn_fail(void) { MessageBeep(0); }\n", ["-luser32"]
        else:
            library = System(system.target, None, None, "libother" + pathlib.Path(system.name).suffix)
            library.library(self.folder, body="EXPORT int other(void) { return 1; }\n", leave_out=FUNCTIONS)
        said = self.wrong(system, system.library(self.folder, body=body, options=options))
        self.assertRegex(said, "the library needs .*(?i:other|user32)")

    def test_debug(self):
        for system in SYSTEMS[:1] + [system for system in SYSTEMS if system.platform == "macosx_11_0_arm64"]:  # zig makes its parts anew for -g
            self.assertIn("debugging information", self.wrong(system, system.library(self.folder, debug="-g")))

    @on_each()
    def test_paths(self, system):
        path = 'EXPORT const char *gdn_fail(void) { return "%s"; }\n'
        for text in ("/opt/some/core/status.c", "C:\\\\some\\\\core", "/absent/folder/x"):
            self.assertIn("paths of its build", self.wrong(system, system.library(self.folder, body=path % text)), text)
        said = self.wrong(system, system.library(self.folder, body=path % "core/status.c /proc/self/maps"))
        self.assertNotIn("paths", said)

    @on_each()
    def test_record(self, system):
        data = system.library(self.folder)
        self.assertIn("another digest of gdn/__init__.py", self.wrong(system, data, record={"gdn/__init__.py": b"x"}))
        self.assertIn("differ in gdn/gone.py", self.wrong(system, data, record={"gdn/gone.py": b""}))
        self.assertIn("only binary", self.wrong(system, data, more={"gdn/another": b"\x7fELF"}))

    @on_each("libgdn.so")
    def test_elf(self, system):
        self.assertIn("calls itself", self.wrong(system, system.library(self.folder, options=["-Wl,-soname,libgdn.so.0"])))
        self.assertIn("has a RUNPATH", self.wrong(system, system.library(self.folder, options=["-Wl,-rpath,/opt", "-Wl,--enable-new-dtags"])))
        stack = struct.pack("<II", 0x6474e551, 6)  # read and write; 7: execute too
        executable = system.library(self.folder).replace(stack, struct.pack("<II", 0x6474e551, 7))
        self.assertIn("executable stack", self.wrong(system, executable))

    def test_glibc(self):
        body = "int getrandom(void *, unsigned long, unsigned);\nEXPORT void gdn_fail(void) { getrandom(0, 0, 0); }\n"
        data = GNU.library(self.folder, body=body, target=f"{HERE}-linux-gnu.2.28")
        self.assertIn("the library is for 2.25 and later", self.wrong(GNU, data, platform_tag=f"manylinux_2_17_{HERE}"))
        self.assertIn("symbols of glibc", self.wrong(GNU, data, platform_tag=f"musllinux_1_2_{HERE}"))

    @unittest.skipUnless(ZIG, "GDN_ZIG names no compiler for macOS")
    @on_each("libgdn.dylib")
    def test_macos(self, system):
        data = system.library(self.folder)
        self.assertIn("is for 11.0 and later", self.wrong(system, data, platform_tag=system.platform.replace("11_0", "10_15")))
        renamed = data.replace(b"@rpath/libgdn.dylib", b"/place/libgdn.dylib")
        self.assertIn("calls itself '/place/", self.wrong(system, renamed))
        if "arm64" in system.platform:  # the command is another one, of the same size
            unsigned = data.replace(struct.pack("<II", 0x1d, 16), struct.pack("<II", 0x29, 16), 1)
            self.assertIn("no signature", self.wrong(system, unsigned))


if __name__ == "__main__":
    unittest.main()
