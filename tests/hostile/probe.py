"""Sends GET of one key about once a millisecond until its input ends, then writes doubles: the start and the duration of each
request, and the processor time that the server's data threads used meanwhile (NaN where the system does not count it).

A process of its own, so that the work of the checks does not delay it, and with real-time priority where the system allows it:
otherwise a probe that was sent its reply waits up to 4 ms for the core of another process of the checks.
"""

import array
import contextlib
import os
import select
import socket
import sys
import time


def main() -> None:
    port, key = int(sys.argv[1]), sys.argv[2].encode()
    files = [os.open(path, os.O_RDONLY) for path in sys.argv[3:]]
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))

    def used_s() -> float:
        """Sum of the processor time of the data threads, in seconds."""
        try:
            return sum(int(os.pread(file, 100, 0).split()[0]) for file in files) / 1e9 if files else float("nan")
        except OSError:
            return float("nan")

    request = b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key)
    numbers, clock = array.array("d"), time.monotonic
    connection = socket.create_connection(("127.0.0.1", port), timeout=120)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The name of the connection is the key.
    connection.sendall(b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n" + request.split(b"\r\n", 3)[3])
    connection.recv(4096)
    is_first = True
    while is_first or not select.select([0], [], [], 0.0007)[0]:
        used, start = used_s(), clock()
        try:
            connection.sendall(request)
            is_open = bool(connection.recv(4096))
        except OSError:
            is_open = False
        duration = clock() - start if is_open else float("inf")
        numbers.extend((start, duration, used_s() - used))
        if not is_open:
            break
        if is_first:
            os.write(1, b".")
            is_first = False
    if is_first:
        os.write(1, b".")
    output = numbers.tobytes()
    while output:
        output = output[os.write(1, output) :]


main()
