"""The mistakes "a refusal is removed", made from the code: each place of the product that refuses, without its refusal.

A place is a call of gdn_fail() or rt_fail(), or of a function that does nothing else than refuse (always_refuse()). Such
a statement is left out, so that the code goes on as if the condition were false. At the end of a function it returns 0.
TESTS says which programs may notice it. UNNOTICED has the places that no test can notice, with the reason.
"""
import dataclasses

import places

REFUSE = frozenset(("gdn_fail", "rt_fail"))
HOST = ["test_api", "test_record", "test_alloc", "missing_loader", "long_sequences", "fuzz_args", "test_validation", "test_vulkan", "test_cuda"]
MODEL = ["test_rt_gguf", "test_names", "test_variants", "test_rt_split", "test_draft_model", "test_files", "test_rt_weights"]
SERVE = ["test_rt_drafts", "test_rt_choices", "test_rt_prefix_cache", "test_rt_prefix_save", "test_rt_conversation",
         "test_rt_scheduler", "test_talk", "test_run_ends"]
TESTS = {  # of each folder; the longest name counts
    "backends": HOST, "core": HOST, "cpu": HOST, "reference": HOST,
    "gpu": ["test_vulkan", "test_cuda"], "cuda": ["test_cuda"], "metal": ["test_metal"],
    "vulkan": ["test_vulkan", "long_sequences"],
    "runtime/base": ["test_rt_text_alloc", "test_rt_memory", "test_rt_gguf", "test_rt_scheduler"],
    "runtime/files": [*MODEL, "test_rt_memory"],
    "runtime/text": ["test_rt_tokenizer", "test_chat_text", "test_rt_text_alloc", "test_names", "test_files", "test_rt_conversation"],
    "runtime/schema": ["test_rt_schema"],
    "runtime/dense": ["test_rt_dense_rows", "test_rt_weights", "test_rt_memory", "test_rt_experts", *MODEL],
    "runtime/model": MODEL,
    "runtime/memory": ["test_rt_memory", "test_rt_prefix_save", "test_rt_prefix_cache", "fuzz_prefix_load", "test_rt_scheduler",
                       "test_rt_engine_random"],
    "runtime/decode": ["test_rt_memory", "test_rt_choices", "test_rt_broken", *SERVE, "test_draft_model", "test_perplexity", "test_rt_engine_random"],
    "runtime/serve": [*SERVE, "test_json_schema"],
    "tools": ["test_perplexity", "test_files", "test_prefix_file", "test_run_ends", "test_talk"],
}
CONTRADICTION = "GDN_INTERNAL: only an error of this code leads there"
UNNOTICED = {  # (path, function, a part of the text): why
    ("core/maps.c", "gdn_check_sequences", "and no entry is"): CONTRADICTION,
    ("core/maps.c", "gdn_check_conv_sequences", "and no entry is"): CONTRADICTION,
    ("core/maps.c", "written_twice", "which no other entry writes"): CONTRADICTION,
    ("core/maps.c", "read_and_written", "of which no writer is found"): CONTRADICTION,
    ("core/record.c", "gdn_record_read", "its items have"): "a forged record: the checksum is right, and the size is not that of its items",
    ("gpu/self_test.c", "expected_of", "the reference writes nothing"): CONTRADICTION,
    ("gpu/self_test.c", "with_memory", "and the kernels have another number"): CONTRADICTION,
    ("metal/record.c", "gdn_metal_run", "dispatches in one call"): CONTRADICTION,
    ("runtime/model/model.c", "find", "model_names.def does not have it"): CONTRADICTION,
    ("runtime/model/model_hparams.c", "key_of", "model_names.def does not have it"): CONTRADICTION,
    ("runtime/files/gguf.c", "gguf_open_file", "cannot open"): "a file that the user may not read: tests may run as root",
}


def refusals_of(text, names):
    """(index of its token, the one behind the call) of each call of these names. Not where they are declared."""
    tokens = places.tokens_of(text)
    for i, token in enumerate(tokens[:-1]):
        if token.text in names and tokens[i + 1].text == "(" and tokens[i - 1].text not in ("gdn_status", "*"):
            yield i, places.closing(tokens)[i + 1] + 1


def always_refuse(tree):
    """{path or None: names} of the functions whose last statement is a refusal and their only `return`. None: all files."""
    names = {None: set(REFUSE)}
    while True:
        before = sum(map(len, names.values()))
        for path, text in tree.items():
            tokens = places.tokens_of(text)
            for name, begin, behind in places.functions_of(text):
                body = [token.text for token in tokens[begin:behind]]
                known = names[None] | names.get(path, set())
                if name not in known and body.count("return") == 1 and not {"#", "if"} & set(body):
                    at = body.index("return")
                    if body[at + 1] in known and places.closing(tokens)[begin + at + 2] + 3 == behind:
                        static = begin > 1 and "static" in (token.text for token in tokens[max(0, begin - 4):begin])
                        names.setdefault(path if static else None, set()).add(name)
        if sum(map(len, names.values())) == before:
            return names


@dataclasses.dataclass
class Refusal:
    what: str
    folder: str
    function: str
    tests: list
    at: places.Place
    by: str
    noticed_by: str = ""
    arguments: tuple = ()

    def tries(self):
        return [dataclasses.replace(self, noticed_by=test) for test in self.tests]

    def place(self, tree):
        return self.at, {}

    def plant(self, tree):
        text = tree[self.at.path]
        return self.at.path, f"{text[:self.at.begin]}{self.by}{text[self.at.end:]}"


def refusal_of(path, text, name, behind_body, call):
    """behind_body: the token behind the function; call: as refusals_of() gives it. None: this cannot be left out."""
    tokens = places.tokens_of(text)
    first, behind = call
    said = next((token.text[1:-1] for token in tokens[first:behind] if token.kind == "string"), tokens[first].text)
    by = "0"
    if tokens[first - 1].text == "return" and any(token.text != "}" for token in tokens[behind + 1:behind_body]):
        first, behind, by = first - 1, behind + 1, ";"  # the whole statement
    elif tokens[first - 1].text not in ("return", "=", "?", ":", ")"):
        return None
    at = tokens[first].begin, tokens[behind - 1].end
    folder = max((folder for folder in TESTS if path.startswith(folder + "/")), key=len)
    return Refusal(f"{path} {name}: {said}", folder, name, TESTS[folder], places.Place(path, *at, (), at), by)


def read_refusals(root=places.ROOT):
    """The mistakes, without those of UNNOTICED. Raises LookupError where a refusal cannot be removed."""
    tree = places.read_tree(sorted({folder.split("/")[0] for folder in TESTS}), root)
    names, found, left = always_refuse(tree), [], set(UNNOTICED)
    for path, text in tree.items():
        known = names[None] | names.get(path, set())
        for call in refusals_of(text, known):
            around = [f for f in places.functions_of(text) if f[1] < call[0] < f[2]]
            one = refusal_of(path, text, around[-1][0], around[-1][2], call) if around else None
            if not one:
                raise LookupError(f"{path}: {text[:places.tokens_of(text)[call[0]].begin].count(chr(10)) + 1}: this refusal cannot be left out")
            if one.function in known:
                continue
            key = next((key for key in UNNOTICED if key[:2] == (path, one.function) and key[2] in one.what), None)
            left.discard(key)
            found += [] if key else [one]
    if left:
        raise LookupError(f"UNNOTICED of refusals.py has what is no refusal: {sorted(left)}")
    return found
