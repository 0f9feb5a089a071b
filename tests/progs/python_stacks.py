# SPDX-License-Identifier: Apache-2.0
"""Sleeps in many places and prints, a line each, where the interpreter itself says that it is."""

import os
import sys
import threading
import time

out = []


def here():
    frame, names = sys._getframe(1), []
    while frame:
        path = frame.f_code.co_filename
        if "/lib/python3" in path:
            path = "python/" + path.split("/lib/python3")[1].split("/", 1)[1]
        else:
            path = os.path.basename(path)
        names.append(f"{path}:{frame.f_lineno} in {frame.f_code.co_name}")
        frame = frame.f_back
    out.append(" < ".join(names))


def nap(ms=12): here(); time.sleep(ms / 1000)


def several(n):
    for i in range(n):

        nap(i * 3 + 12)
        yield i


class Samples:
    def __getitem__(self, index):
        if index > 0:
            return self[index - 1]
        return [
            index,
            nap(),
            nap(
                15
            ),
        ]


# its table of lines is longer than what is read at a time
far = {}
source = "\n".join(["def far_down(nap):", "    x = 0"] + ["    x += len([x, 1, 2])"] * 700 + ["    nap()"])
exec(compile(source, "/somewhere/far.py", "exec"), far)

Samples()[3]
list(map(lambda i: nap(), [1, 2]))
for _ in several(3):
    pass
far["far_down"](nap)
try:
    raise ValueError
except ValueError:
    nap()
thread = threading.Thread(target=nap)
thread.start()
time.sleep(0.1)
thread.join()
print("\n".join(out))
