"""A GGUF file that a test reads, changes and writes: its keys' values with their kinds, and its tensors, as bytes."""
import copy
import struct

U32, I32, F32, BOOL, STRING, ARRAY, I64 = 4, 5, 6, 7, 8, 9, 11
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
TYPES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 12: (256, 144), 13: (256, 176), 14: (256, 210), 30: (1, 2)}


def string(data):
    return struct.pack("<Q", len(data)) + data


def value(x):
    """A key's kind and bytes."""
    if isinstance(x, bool):
        return struct.pack("<I?", BOOL, x)
    if isinstance(x, int):
        return struct.pack("<Iq", I64, x) if x < 0 else struct.pack("<II", U32, x)
    if isinstance(x, float):
        return struct.pack("<If", F32, x)
    if isinstance(x, (str, bytes)):
        return struct.pack("<I", STRING) + string(x if isinstance(x, bytes) else x.encode())
    if isinstance(x[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(x)) + b"".join(string(text.encode()) for text in x)
    kind, form = (BOOL, "?") if isinstance(x[0], bool) else (I32, "i")
    return struct.pack("<IIQ", ARRAY, kind, len(x)) + struct.pack(f"<{len(x)}{form}", *x)


class File:
    def __init__(self, path=None):
        self.keys, self.tensors, described = {}, {}, []
        if not path:
            return
        data, at = path.read_bytes(), 24
        n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
        for _ in range(n_keys):
            name, at = self.string(data, at)
            end = self.skip(data, struct.unpack_from("<I", data, at)[0], at + 4)
            self.keys[name] = data[at:end]
            at = end
        for _ in range(n_tensors):
            name, at = self.string(data, at)
            n_dims, = struct.unpack_from("<I", data, at)
            *ne, kind, offset = struct.unpack_from(f"<{n_dims}QIQ", data, at + 4)
            described.append((name, ne, kind, offset))
            at += 4 + 8 * n_dims + 12
        begin = -(-at // 32) * 32
        for name, ne, kind, offset in described:
            n = TYPES[kind][1]
            for i, x in enumerate(ne):
                n *= x if i else x // TYPES[kind][0]
            self.tensors[name] = (ne, kind, data[begin + offset:begin + offset + n])
        self.arch = self.keys["general.architecture"][12:].decode()

    @staticmethod
    def string(data, at):
        n, = struct.unpack_from("<Q", data, at)
        return data[at + 8:at + 8 + n].decode("utf-8", "replace"), at + 8 + n

    def skip(self, data, kind, at):
        if kind != ARRAY:
            return self.string(data, at)[1] if kind == STRING else at + SIZES[kind]
        element, count = struct.unpack_from("<IQ", data, at)
        at += 12
        if element in SIZES:
            return at + count * SIZES[element]
        for _ in range(count):
            at = self.skip(data, element, at)
        return at

    def write(self, path, on_top=None):
        """on_top: the data of a tensor lies where that of another begins."""
        out = struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(self.keys))
        body, offsets = [], {}
        n = 0
        for name, x in self.keys.items():
            out += string(name.encode()) + x
        for name, (_, _, data) in self.tensors.items():
            offsets[name] = n
            body.append(data + bytes(-len(data) % 32))
            n += len(body[-1])
        for name, (ne, kind, _) in self.tensors.items():
            at = offsets[(on_top or {}).get(name, name)]
            out += string(name.encode()) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, kind, at)
        path.write_bytes(out + bytes(-len(out) % 32) + b"".join(body))
        return path

    def number(self, name):
        return struct.unpack_from("<I", self.keys[f"{self.arch}.{name}"], 4)[0]

    def strings(self, name):
        """The strings of an array."""
        data, out, at = self.keys[name], [], 16
        while at < len(data):
            text, at = self.string(data, at)
            out.append(text)
        return out

    def having(self, keys=None, tensors=None):
        """A copy with these values of keys and these tensors; None: without it."""
        other = copy.copy(self)
        for what, new in (("keys", keys), ("tensors", tensors)):
            there = {name: x for name, x in getattr(self, what).items() if name not in (new or {}) or new[name] is not None}
            there.update({name: x for name, x in (new or {}).items() if x is not None})
            setattr(other, what, there)
        return other

    def but(self, keys=None, tensors=None, rename=()):
        """The same with keys of the architecture, as numbers or arrays of numbers, and with renamed tensors."""
        other = self.having({f"{self.arch}.{name}": x if x is None else value(x) for name, x in (keys or {}).items()}, tensors)
        for old, new in rename:
            other.tensors = {name.replace(old, new) if name.endswith(old) else name: x for name, x in other.tensors.items()}
        return other
