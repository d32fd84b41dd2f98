"""Runs Python scripts one after another in this interpreter: `py` of tests/cli/lib.sh.

Reads from standard input the number of arguments and the arguments, SCRIPT ARG... or -c CODE ARG..., each ended by a zero
byte; answers with the exit status and what was printed, ended likewise."""
import contextlib
import io
import runpy
import sys
import traceback


def words():
    data = b""
    while True:
        more = sys.stdin.buffer.read1(65536)
        if not more:
            return
        *whole, data = (data + more).split(b"\0")
        yield from (w.decode() for w in whole)


def run(args):
    sys.argv = args
    try:
        if args[0] == "-c":
            sys.argv = ["-c", *args[2:]]
            exec(compile(args[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_path(args[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code)
            return 1
        return int(end.code or 0)
    except BaseException:       # as the interpreter would end
        traceback.print_exc(file=sys.stdout)
        return 1
    return 0


asked = words()
for count in asked:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = run([next(asked) for _ in range(int(count))])
    sys.stdout.write(f"{status}\0{said.getvalue()}\0")
    sys.stdout.flush()
