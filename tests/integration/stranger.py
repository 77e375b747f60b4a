"""Strangers to a peer, for tests: sockets, and a session with a fresh key.

The session is TLS 1.3 as in src/io/tls.cpp, cells and frames are those of src/io/cells.hpp and
src/wire/frame.hpp, written here a second time on purpose: nothing of the peer's own code is used.
"""
import ctypes
import hashlib
import hmac
import os
import pathlib
import socket
import ssl
import struct
import subprocess
import threading

LINK_VERSION = 4  # wire::kMajorVersion
OPEN = bytes(32)  # the key of a swarm that has no secret
DATA, RESUME, TAKEN, AGAIN, END, OFFER, DOOR = range(1, 8)
HELLO, HEARTBEAT, DELTA, CIRCUIT = 1, 5, 8, 15
LINK, CARRIER = 0, 1

_xxhash = ctypes.CDLL("libxxhash.so.0")
_xxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64
_xxhash.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def xxh3(data, seed=0):
    return _xxhash.XXH3_64bits_withSeed(data, len(data), seed)


def frame(kind, metadata=b"", payload=b"", version=LINK_VERSION, size=None):
    """A frame with a correct checksum; `size` is the announced size, if not the payload's."""
    metadata += bytes(-len(metadata) % 8)
    head = struct.pack("<BBHI", version, kind, len(metadata) // 8,
                       len(payload) if size is None else size)
    return head + struct.pack("<Q", xxh3(metadata + payload, xxh3(head))) + metadata + payload


def cell(kind, body=b"", size=None):
    return struct.pack("<I", kind | (len(body) if size is None else size) << 8) + body


def number_cell(kind, number):
    return cell(kind, struct.pack("<Q", number))


def preamble(version=LINK_VERSION, use=LINK, token=0):
    return struct.pack("<BB6xQ", version, use, token)


class Key:
    """A self-signed certificate, in files."""

    def __init__(self, folder, name, kind=("ed25519",)):
        self.key, self.certificate = folder / f"{name}.key", folder / f"{name}.pem"
        made = [["genpkey", "-algorithm", *kind, "-out", self.key],
                ["req", "-x509", "-new", "-key", self.key, "-subj", "/CN=stranger", "-days", "30",
                 "-out", self.certificate]]
        for words in made:
            subprocess.run(["openssl", *words], check=True, capture_output=True)


class Keys:
    """Fresh keys; each is used a few times, since making one takes 20 ms."""
    USES = 20

    def __init__(self, folder):
        self.folder, self.used, self.now = pathlib.Path(folder), 0, None
        self.lock = threading.Lock()
        self.wrong = Key(self.folder, "wrong", ("EC", "-pkeyopt", "ec_paramgen_curve:P-256"))

    def one(self):
        with self.lock:
            if self.used % self.USES == 0:
                self.now = Key(self.folder, f"key-{self.used}")
            self.used += 1
            return self.now


def connect(source, port, patience):
    """A connection from an address of this machine to a port of loopback; OSError if none."""
    made = socket.socket()
    try:
        made.bind((source, 0))
        made.settimeout(patience)
        made.connect(("127.0.0.1", port))
    except OSError:
        made.close()
        raise
    return made


def client_hello():
    """The first bytes of a TLS 1.3 client."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = _context(None)
    try:
        context.wrap_bio(coming, going).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return going.read()


def _context(key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if key is not None:
        context.load_cert_chain(key.certificate, key.key)
    return context


class Session:
    """TLS with a peer, as the dialer. Errors are OSErrors (ssl.SSLError is one)."""

    def __init__(self, connection, key, folder):
        log = folder / f"session-{id(self):x}-{threading.get_ident():x}"
        context = _context(key)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.keylog_filename = os.fspath(log)
        try:
            self.tls = context.wrap_socket(connection)
            secrets = [line.split()[2] for line in log.read_text().splitlines()
                       if line.startswith("EXPORTER_SECRET")]
        finally:
            log.unlink()
        self.secret = bytes.fromhex(secrets[0])
        self.hash = hashlib.sha384 if self.tls.cipher()[0].endswith("SHA384") else hashlib.sha256

    def _expand(self, key, label, context):
        """HKDF-Expand-Label (RFC 8446, 7.1) of one hash's length or less."""
        size = 32 if label == b"exporter" else self.hash().digest_size
        label = b"tls13 " + label
        info = struct.pack("<BBB", size >> 8, size & 255, len(label)) + label
        info += bytes([len(context)]) + context
        return hmac.new(key, info + b"\1", self.hash).digest()[:size]

    def exported(self, label):
        """Keying material of the session (RFC 8446, 7.5)."""
        nothing = self.hash(b"").digest()
        return self._expand(self._expand(self.secret, label, nothing), b"exporter", nothing)

    def proof(self, key=OPEN):
        return hmac.new(key, self.exported(b"EXPORTER-starling-dialer"), hashlib.sha256).digest()

    def enter(self):
        """Whether the peer lets this end in; its own preamble follows."""
        self.tls.sendall(self.proof())
        verdict = b""
        while len(verdict) < 33:
            part = self.tls.recv(33 - len(verdict))
            if not part:
                break
            verdict += part
        return verdict[:1] == b"\1"

    def say(self, plain):
        """In records as a peer has them."""
        for at in range(0, len(plain), 16384):
            self.tls.sendall(plain[at:at + 16384])

    def close(self):
        self.tls.close()
