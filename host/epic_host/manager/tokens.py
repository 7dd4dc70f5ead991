"""Tokens and seeds, made of the store's secret and of what they are for: the same after a restart, and never stored."""

from __future__ import annotations

import hashlib
import hmac


class Secrets:
    """Everything that must not be guessed, by HMAC-SHA-256 under one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def token(self, *purpose: str | int) -> str:
        """A token of 128 bits for this purpose."""
        return self._digest(purpose).hex()[:32]

    def seed(self, *purpose: str | int) -> int:
        """A seed of 64 bits for this purpose."""
        return int.from_bytes(self._digest(purpose)[:8], "big")

    def is_token(self, shown: str, *purpose: str | int) -> bool:
        """Whether it is the token for this purpose, in a time that does not tell how much of it is right."""
        return hmac.compare_digest(shown.encode(), self.token(*purpose).encode())

    def _digest(self, purpose: tuple[str | int, ...]) -> bytes:
        # With lengths, so that no two purposes are the same bytes.
        parts = [str(part).encode() for part in purpose]
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.new(self._secret, message, hashlib.sha256).digest()
