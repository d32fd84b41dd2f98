#!/usr/bin/env python3
"""What comes to the meeting place of a world besides its processes, and one process whose proofs are computed by Python's own HMAC.

    stranger.py member PORT SECRET      rank 1 of 2: proves itself, has rank 0 prove itself, opens both channels, and leaves
    stranger.py server PORT             answers as rank 0 would, and gives every proof back
    stranger.py record PORT TO FILE     hands one connection on to port TO; what the client says is kept in FILE
    stranger.py replay PORT FILE        says it again
    stranger.py mirror PORT             sends back what it is sent, as a proof, over two connections that challenge each other
    stranger.py older PORT              says who it is in a shorter greeting of the version before
    stranger.py newer PORT              answers as rank 0 of a later version would
    stranger.py garbage PORT            connections of all kinds of bytes
    stranger.py flood PORT N SECONDS    N connections at a time that say nothing, half of a greeting, or a greeting and no proof

Layouts are those of exec/world/greeting.h."""
import hashlib
import hmac
import os
import random
import socket
import struct
import sys
import threading
import time

MAGIC = 0x64706578656333
HELLO = struct.Struct("=QQQiiiiii32s")
PROOF = struct.Struct("=Q32s")
REPLY = struct.Struct("=QQii32s32s1024s")
MEMBER = struct.Struct("=Qii48s")


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def read(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise EOFError("closed after %d of %d bytes" % (len(data), n))
        data += more
    return data


def read_reply(s):
    magic, number, refused, secured, nonce, proof, reason = REPLY.unpack(read(s, REPLY.size))
    assert magic == MAGIC
    if refused:
        raise PermissionError(reason.split(b"\0")[0].decode())
    return number, secured, nonce, proof


def hello(rank=1, server=0, channel=0, number=0, port=1, nonce=None, size=2, secured=1):
    return HELLO.pack(MAGIC, number, 7, size, rank, server, channel, port, secured, nonce or os.urandom(32))


def prove(secret, role, said, nonce):
    return hmac.new(secret, role.ljust(16, b"\0") + said + nonce, hashlib.sha256).digest()


def greet(at, secret, **what):
    s, said = connect(at), hello(**what)
    s.sendall(said)
    _, secured, nonce, _ = read_reply(s)
    assert secured == 1
    s.sendall(PROOF.pack(MAGIC, prove(secret, b"dpexec client 2", said, nonce)))
    assert read_reply(s)[3] == prove(secret, b"dpexec server 2", said, nonce), "the server's proof"
    return s


def member(port, path):
    secret = open(path, "rb").read()
    s = greet(port, secret, port=9)
    number = read_reply(s)[0]
    members = [MEMBER.unpack(read(s, MEMBER.size)) for _ in range(2)]
    assert number and members[1][:3] == (7, 1, 9) and members[1][3].startswith(b"127.0.0.1\0"), members
    greet(port, secret, channel=1, number=number)


def server(port):
    at = socket.create_server(("127.0.0.1", port))
    s, _ = at.accept()
    read(s, HELLO.size)
    s.sendall(REPLY.pack(MAGIC, 0, 0, 1, os.urandom(32), bytes(32), b""))
    proof = PROOF.unpack(read(s, PROOF.size))[1]
    s.sendall(REPLY.pack(MAGIC, 0, 0, 1, bytes(32), proof, b""))
    s.recv(1)


def record(port, to, path):
    at = socket.create_server(("127.0.0.1", port))
    client, _ = at.accept()
    behind, kept = connect(to), open(path, "wb", buffering=0)
    behind.settimeout(None)

    def answers():
        while data := behind.recv(65536):
            client.sendall(data)
        client.close()
    threading.Thread(target=answers, daemon=True).start()

    def others():     # the later channel
        c, _ = at.accept()
        b = connect(to)
        b.settimeout(None)
        threading.Thread(target=pump, args=(b, c), daemon=True).start()
        pump(c, b)

    def pump(a, b):
        while data := a.recv(65536):
            b.sendall(data)
    threading.Thread(target=others, daemon=True).start()
    left = HELLO.size + PROOF.size
    while data := client.recv(65536):
        kept.write(data[:left])
        left -= min(left, len(data))
        behind.sendall(data)


def expect_closed(s):
    """Nothing but refusals and challenges may come, and then the end."""
    data = b""
    try:
        while more := s.recv(65536):
            data += more
    except OSError:
        pass
    replies = [REPLY.unpack_from(data, i) for i in range(0, len(data), REPLY.size)]
    assert all(r[0] == MAGIC and r[1] == 0 and r[5] == bytes(32) for r in replies), "more than a challenge came: %r" % (replies,)
    return [r[6].split(b"\0")[0].decode() for r in replies if r[2]]


def replay(port, path):
    said = open(path, "rb").read()
    assert len(said) == HELLO.size + PROOF.size, len(said)
    s = connect(port)
    s.sendall(said)
    assert expect_closed(s) == ["the secrets (--world-secret) are not the same"]


def mirror(port):
    a, b = connect(port), connect(port)
    a.sendall(hello())
    nonce = read_reply(a)[2]
    b.sendall(hello(nonce=nonce))
    for s, back in ((a, nonce), (b, read_reply(b)[2])):
        s.sendall(PROOF.pack(MAGIC, back))
        assert expect_closed(s) == ["the secrets (--world-secret) are not the same"]
    for size in (-1, 0, 1 << 30):
        s = connect(port)
        s.sendall(hello(size=size, rank=size))
        read_reply(s)
        s.sendall(PROOF.pack(MAGIC, bytes(32)))
        assert expect_closed(s)


def garbage(port):
    random.seed(1)
    for k in range(60):
        s = connect(port)
        try:
            if k % 3 == 0:
                s.sendall(random.randbytes(random.randrange(1, 70000)))
            elif k % 3 == 1:
                said = bytearray(hello())
                said[random.randrange(8)] ^= 1 << random.randrange(8)
                s.sendall(bytes(said))
            else:
                s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        except OSError:
            pass
        s.close()


def older(port):
    s = connect(port)
    s.sendall(struct.pack("=Q", MAGIC - 1) + hello()[8:60])
    said = expect_closed(s)
    assert len(said) == 1 and said[0].startswith("rank 0 speaks version 3 ") and "this one version 2: " in said[0], said


def newer(port):
    s, _ = socket.create_server(("127.0.0.1", port)).accept()
    s.sendall(struct.pack("=Q", MAGIC + 1) + bytes(40))
    s.recv(1)


def flood(port, n, seconds):
    held, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            s = connect(port)
            s.sendall((b"", hello()[:40], hello())[len(held) % 3])
            held.append(s)
        except OSError:
            time.sleep(0.01)
        if len(held) > n:
            held.pop(0).close()
            time.sleep(0.002)


command, port, rest = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
{"member": member, "server": server, "replay": replay, "mirror": mirror, "garbage": garbage, "older": older, "newer": newer,
 "record": lambda port, to, path: record(port, int(to), path),
 "flood": lambda port, n, seconds: flood(port, int(n), float(seconds))}[command](port, *rest)
