"""Checksums of a transfer: SHA-256, or POSIX cksum where the far side has nothing better."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

#: CRC of POSIX `cksum` (IEEE Std 1003.1, cksum): polynomial of ISO 8802-3, most significant bit
#: first, the length appended, the result complemented.
_POLYNOMIAL = 0x04C11DB7


@dataclass(frozen=True)
class Checksum:
    """A digest and the tool it came from: `sha256sum`, `shasum`, `openssl` or `cksum`."""

    tool: str
    digest: str

    def matches(self, content: bytes) -> bool:
        """Whether `content` has this checksum."""
        return self.digest == (cksum(content) if self.tool == "cksum" else sha256(content))


def sha256(content: bytes) -> str:
    """Lower-case hexadecimal digest."""
    return hashlib.sha256(content).hexdigest()


def cksum(content: bytes) -> str:
    """What POSIX `cksum` prints first: the CRC as a decimal number."""
    table = _table()
    crc = 0
    length = len(content)
    tail = length.to_bytes((length.bit_length() + 7) // 8, "little")
    for chunk in (content, tail):
        for byte in chunk:
            crc = ((crc << 8) & 0xFFFFFFFF) ^ table[(crc >> 24) ^ byte]
    return str(crc ^ 0xFFFFFFFF)


def _table() -> list[int]:
    table = []
    for index in range(256):
        crc = index << 24
        for _ in range(8):
            crc = (crc << 1) ^ (_POLYNOMIAL if crc & 0x80000000 else 0)
        table.append(crc & 0xFFFFFFFF)
    return table
