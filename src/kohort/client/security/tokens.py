"""Tokens for OAUTHBEARER: from a token endpoint, a file, a callback or AWS's signer."""

import asyncio
import inspect
import json
import logging
import re
import ssl
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from kohort.client.security.failures import AuthenticationError
from kohort.client.security.options import MSK_IAM, SecurityOptions
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.model import Millis
from kohort.security import Secret
from kohort.security.sasl import check_token

_log = logging.getLogger(__name__)

_LONGEST_ANSWER = 1 << 20
_ENDPOINT_TIMEOUT_S = 10.0
_LOCAL = ("localhost", "127.0.0.1", "::1")
_REFRESH_AT = 0.8
"""Fraction of a token's life after which the next one is requested (sasl.login.refresh.window.factor)."""
_AWS_REGION = re.compile(r"\.kafka(?:-serverless)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com")


@dataclass(frozen=True, slots=True)
class Token:
    """Token and its end in milliseconds since 1970, if it is known."""

    text: Secret
    expires_at_ms: Millis | None


class Tokens:
    """Source of the tokens of one client. A token is kept until 80 % of its life are over."""

    def __init__(self, options: SecurityOptions, bootstrap: str) -> None:
        self._options = options
        self._bootstrap = bootstrap
        self._token: Token | None = None
        self._refresh_at: float = 0.0
        self._request: asyncio.Task[Token] | None = None
        endpoint = urlsplit(options.sasl_oauth_token_endpoint_url or "")
        if endpoint.scheme == "http" and endpoint.hostname not in _LOCAL:
            _log.warning(
                "the client secret is sent to the token endpoint %s without TLS, for all to read: use https",
                endpoint.hostname,
            )

    async def token(self) -> Token:
        """Return a valid token. Raises KafkaError; a retriable one if its source cannot be reached."""
        known = self._fresh()
        if known is not None:
            return known
        if self._request is None or self._request.done():
            self._request = asyncio.get_running_loop().create_task(self._next(), name="kohort-token")
        try:
            return self._keep(await asyncio.shield(self._request))
        except KafkaError as problem:
            return self._usable_in_spite_of(problem)

    def token_now(self) -> Token:
        """Return a valid token, and block until it has arrived. Not for a provider that is async."""
        known = self._fresh()
        if known is not None:
            return known
        try:
            return self._keep(_checked(self._source()()))
        except KafkaError as problem:
            return self._usable_in_spite_of(problem)

    async def _next(self) -> Token:
        provider = self._options.sasl_oauth_token_provider
        if provider is None:
            return _checked(await asyncio.to_thread(self._source()))
        call: Callable[[], Any] = getattr(provider, "token", provider)
        try:
            if inspect.iscoroutinefunction(call):
                answer = await call()
            else:
                answer = await asyncio.to_thread(call)
                if inspect.isawaitable(answer):
                    answer = await answer
        except KafkaError:
            raise
        except Exception as problem:
            raise _provider_failed(problem) from problem
        return _checked(answer)

    def _source(self) -> Callable[[], object]:
        options = self._options
        if options.sasl_mechanism == MSK_IAM:
            return lambda: _msk_token(_region(options, self._bootstrap))
        if options.sasl_oauth_token is not None:
            text = options.sasl_oauth_token.reveal()
            return lambda: text
        assert options.sasl_oauth_token_endpoint_url is not None
        return lambda: _endpoint_token(options)

    def _fresh(self) -> Token | None:
        return self._token if self._token is not None and time.time() < self._refresh_at else None

    def _keep(self, token: Token) -> Token:
        if token is not self._token:
            now = time.time()
            self._token, self._refresh_at = token, now
            if token.expires_at_ms is not None:
                self._refresh_at += _REFRESH_AT * (token.expires_at_ms / 1000 - now)
        return token

    def _usable_in_spite_of(self, problem: KafkaError) -> Token:
        """Return the present token if the next one cannot be had, until it has ended."""
        token = self._token
        if token is None or token.expires_at_ms is None or token.expires_at_ms / 1000 <= time.time():
            raise problem
        _log.warning("no new token, the present one is used until it ends: %s", problem.sentence)
        return token


def _checked(answer: object) -> Token:
    """Return the answer of a source as a token. Raises AuthenticationError."""
    text, expires_at_ms = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    text = text.reveal() if isinstance(text, Secret) else text
    if not isinstance(text, str) or not (expires_at_ms is None or isinstance(expires_at_ms, int | float)):
        raise AuthenticationError(
            "sasl_oauth_token_provider must return a token as text, or a tuple of the token and its end in milliseconds"
            " since 1970."
        )
    if problem := check_token(text):
        raise AuthenticationError(f"the OAUTHBEARER token cannot be sent: {problem}.")
    ends = _end_of(text) if expires_at_ms is None else int(expires_at_ms)
    if ends is not None and ends / 1000 <= time.time():
        raise AuthenticationError("the OAUTHBEARER token has expired: renew it, or check this host's clock.")
    return Token(Secret(text), ends)


def _end_of(token: str) -> Millis | None:
    """Return the end of a JSON web token; None if the token is of another kind."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return int(claims["exp"] * 1000)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def _endpoint_token(options: SecurityOptions) -> tuple[str, Millis | None]:
    url = options.sasl_oauth_token_endpoint_url or ""
    if url.startswith("file:"):
        return _file_token(unquote(urlsplit(url).path)), None
    client_id, secret = options.sasl_oauth_client_id or "", options.sasl_oauth_client_secret or Secret("")
    form = {"grant_type": "client_credentials"} | (
        {"scope": options.sasl_oauth_scope} if options.sasl_oauth_scope else {}
    )
    authorization = b64encode(f"{client_id}:".encode() + secret.reveal_bytes()).decode()
    headers = {
        "Authorization": f"Basic {authorization}",
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    request = Request(url, urlencode(form).encode(), headers, method="POST")
    host = urlsplit(url).hostname
    try:
        with build_opener(_NoRedirects).open(request, timeout=_ENDPOINT_TIMEOUT_S) as response:
            body = response.read(_LONGEST_ANSWER + 1)
    except HTTPError as problem:
        with problem:
            detail = f"the token endpoint {host} answered {problem.code}{_oauth_error(problem.read(10_000))}"
        if problem.code >= 500 or problem.code == 429:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, detail) from None
        advice = "check sasl_oauth_client_id, sasl_oauth_client_secret and sasl_oauth_token_endpoint_url"
        raise AuthenticationError(f"{detail}: {advice}.") from None
    except ssl.SSLCertVerificationError as problem:
        raise AuthenticationError(f"the certificate of the token endpoint {host} is not valid: {problem}.") from None
    except (URLError, OSError, HTTPException) as problem:
        reason = getattr(problem, "reason", None)
        if isinstance(reason, ssl.SSLCertVerificationError):
            detail = f"the certificate of the token endpoint {host} is not valid: {reason.verify_message}."
            raise AuthenticationError(detail) from None
        detail = f"the token endpoint {host} cannot be reached: {reason or problem}"
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, detail) from None
    return _read_answer(body, host)


def _read_answer(body: bytes, host: str | None) -> tuple[str, Millis | None]:
    try:
        if len(body) > _LONGEST_ANSWER:
            raise ValueError
        answer = json.loads(body)
        token, life_s = answer["access_token"], answer.get("expires_in")
        if not isinstance(token, str):
            raise TypeError
        ends = None if life_s is None else int((time.time() + float(life_s)) * 1000)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        detail = f"the token endpoint {host} did not answer with an access_token: check sasl_oauth_token_endpoint_url."
        raise AuthenticationError(detail) from None
    return token, ends


def _oauth_error(body: bytes) -> str:
    try:
        answer = json.loads(body)
        said = ", ".join(str(answer[name])[:200] for name in ("error", "error_description") if name in answer)
    except (ValueError, TypeError, RecursionError):
        return ""
    return f" ({said!r})" if said else ""


def _file_token(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LONGEST_ANSWER)
    except OSError as problem:
        detail = f"the token file {path} of sasl_oauth_token_endpoint_url cannot be read: {problem.strerror}"
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, detail) from None
    return text.decode("ascii", "replace").strip()


def _region(options: SecurityOptions, bootstrap: str) -> str:
    if options.sasl_aws_region:
        return options.sasl_aws_region
    found = _AWS_REGION.search(bootstrap)
    if found is None:
        raise ConfigError("AWS_MSK_IAM needs sasl_aws_region, because the brokers' names contain no region.")
    return found["region"]


def _msk_token(region: str) -> tuple[str, Millis]:
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    except ImportError:
        raise ConfigError("AWS_MSK_IAM needs the signer of AWS: pip install 'kohort[msk]'.") from None
    try:
        token, expires_at_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except Exception as problem:
        raise _provider_failed(problem, "AWS's signer") from problem
    return token, int(expires_at_ms)


def _provider_failed(problem: Exception, source: str = "sasl_oauth_token_provider") -> AuthenticationError:
    # The exception's text could contain the token or what it is made of.
    return AuthenticationError(f"{source} failed with {type(problem).__name__}; the cause is attached.")


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would send the client's secret to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None
