"""Roles at a server of plain (thread-based) gRPC: every method asks who calls before it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final

import grpc

from epic_host.security.roles import Caller, IdentityError, Role, identity, utc_now

REASON: Final = "epic-reason"


def peer_certificate(context: Any) -> bytes | None:
    """The certificate (PEM) that a caller showed; None without TLS."""
    shown = context.auth_context().get("x509_pem_cert")
    return shown[0] if shown else None


def caller_of(context: Any, now: datetime | None = None) -> Caller:
    """Who calls, by its certificate; a caller without a role where there is none (plain text).

    Raises IdentityError for a certificate that names nobody, or that is outside its time.
    """
    certificate = peer_certificate(context)
    if certificate is None:
        return Caller(None, "", context.peer())
    who = identity(certificate)
    who.check(now or utc_now())
    return Caller(who.role, who.name, context.peer(), admin=who.role is Role.ADMIN)


class RoleInterceptor(grpc.ServerInterceptor):
    """Refuses callers whose role is none of `roles`, whatever they call. For a server with TLS."""

    def __init__(self, roles: Collection[Role], service: str) -> None:
        self._roles = frozenset(roles)
        self._service = service

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """gRPC's hook: the handler of a method, with the check before it."""
        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            # The service has unary methods only: what is none of them is unknown to it.
            return None
        inner = handler.unary_unary

        def checked(request: Any, context: grpc.ServicerContext) -> Any:
            self._check(context)
            return inner(request, context)

        return grpc.unary_unary_rpc_method_handler(
            checked, handler.request_deserializer, handler.response_serializer
        )

    def _check(self, context: grpc.ServicerContext) -> None:
        try:
            caller = caller_of(context)
        except IdentityError as error:
            _abort(context, grpc.StatusCode.UNAUTHENTICATED, "who", str(error))
        if caller.role not in self._roles:
            _abort(
                context,
                grpc.StatusCode.PERMISSION_DENIED,
                "not_yours",
                f"{self._service}: {caller} may not call it, expected one of {', '.join(sorted(self._roles))}",
            )


def _abort(context: grpc.ServicerContext, code: Any, reason: str, details: str) -> None:
    context.set_trailing_metadata(((REASON, reason),))
    context.abort(code, details)
