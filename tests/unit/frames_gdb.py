"""What gdb runs for tests/unit/frames.py, which sets PUBLIC and LOOPS: a line `STOP [frames, indirect]` for each new way in which a
function of LOOPS is reached from PUBLIC."""
import json

import gdb

seen = set()


def is_indirect(caller):
    """Did this frame call the one inside it through a pointer?"""
    start = int(caller.function().value().address)
    call = caller.architecture().disassemble(start, caller.pc() - 1)[-1]["asm"]
    return "*" in call or call.startswith("blr")


class Loop(gdb.Breakpoint):
    def stop(self):
        frames, indirect, inner, frame = [], [], None, gdb.newest_frame()
        while frame and frame.is_valid():
            if frame.type() != gdb.INLINE_FRAME:
                if inner and is_indirect(frame):
                    indirect.append(inner)
                inner = frame.name()
                frames.append(inner)
                if inner == PUBLIC:
                    break
            frame = frame.older()
        line = json.dumps([frames, indirect])
        if line not in seen:
            seen.add(line)
            print("STOP", line)
        return False


gdb.execute("set breakpoint pending on")
gdb.execute("set disable-randomization off") # which containers forbid
for name in LOOPS:
    Loop(name)
gdb.execute("run")
