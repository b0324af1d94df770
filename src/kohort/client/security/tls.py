"""TLS contexts from options, and what their errors mean."""

import ssl
from pathlib import Path

from kohort.client.security.failures import AuthenticationError
from kohort.client.security.options import SecurityOptions
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.pem import check_pem_file, check_pem_text, pem_as_file, pem_problem

_EXPIRED, _NOT_YET_VALID, _REVOKED, _OTHER_NAME, _OTHER_ADDRESS = 10, 9, 23, 62, 64
"""Values of OpenSSL's X509_V_ERR_*."""


def tls_context(options: SecurityOptions) -> ssl.SSLContext | None:
    """Return the context for these options; None without TLS. Raises ConfigError for unreadable files."""
    if not options.uses_tls:
        return None
    if options.ssl_context is not None:
        return options.ssl_context
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not options.ssl_verify_certificate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not options.ssl_check_hostname:
        context.check_hostname = False
    if options.ssl_cafile is not None or options.ssl_cadata is not None:
        context = _trusting(context, options)
    if options.ssl_crlfile is not None:
        check_pem_file("ssl_crlfile", options.ssl_crlfile)
        context.load_verify_locations(options.ssl_crlfile)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if options.ssl_certfile is not None or options.ssl_certdata is not None:
        _load_certificate(context, options)
    if options.ssl_ciphers is not None:
        try:
            context.set_ciphers(options.ssl_ciphers.replace(",", ":"))
        except ssl.SSLError:
            raise ConfigError(f"ssl_ciphers is {options.ssl_ciphers!r}, which names no cipher of OpenSSL.") from None
    return context


def _trusting(system: ssl.SSLContext, options: SecurityOptions) -> ssl.SSLContext:
    """Return a context that trusts only the given authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = system.minimum_version
    context.check_hostname = system.check_hostname
    is_directory = options.ssl_cafile is not None and Path(options.ssl_cafile).is_dir()
    if options.ssl_cadata is not None:
        check_pem_text("ssl_cadata", options.ssl_cadata)
    elif options.ssl_cafile is not None and not is_directory:
        check_pem_file("ssl_cafile", options.ssl_cafile)
    try:
        if options.ssl_cadata is not None:
            context.load_verify_locations(cadata=options.ssl_cadata)
        elif is_directory:
            context.load_verify_locations(capath=options.ssl_cafile)
        else:
            context.load_verify_locations(options.ssl_cafile)
    except (ssl.SSLError, ValueError) as problem:
        name = "ssl_cadata" if options.ssl_cadata is not None else f"ssl_cafile {options.ssl_cafile}"
        raise ConfigError(f"{name} has no readable certificates: {pem_problem(problem)}.") from None
    return context


def _load_certificate(context: ssl.SSLContext, options: SecurityOptions) -> None:
    for name, path in (("ssl_certfile", options.ssl_certfile), ("ssl_keyfile", options.ssl_keyfile)):
        if path is not None:
            check_pem_file(name, path)
    if options.ssl_certdata is not None:
        check_pem_text("ssl_certdata", options.ssl_certdata)
    password = options.ssl_password
    asked = False

    def answer() -> bytes:
        nonlocal asked
        asked = True
        return b"" if password is None else password.reveal_bytes()

    key = options.ssl_keydata
    with (
        pem_as_file(None if options.ssl_certdata is None else options.ssl_certdata.encode()) as certificate_text,
        pem_as_file(None if key is None else key.reveal_bytes()) as key_text,
    ):
        certificate = options.ssl_certfile or certificate_text
        assert certificate is not None
        try:
            context.load_cert_chain(certificate, options.ssl_keyfile or key_text, answer)
        except (ssl.SSLError, ValueError) as problem:
            if asked:
                detail = "is wrong" if password else "is missing: the private key is encrypted"
                raise ConfigError(f"ssl_password {detail}.") from None
            raise ConfigError(
                f"the certificate and the private key of this client cannot be loaded: {pem_problem(problem)}."
            ) from None


def tls_error(address: str, problem: Exception) -> KafkaError:
    """Return the error for a failed TLS handshake, with a sentence that says what to change."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return AuthenticationError(_certificate_sentence(address, problem), ErrorCode.NETWORK_EXCEPTION)
    if isinstance(problem, ssl.SSLError) and not isinstance(problem, ssl.SSLEOFError):
        reason = problem.reason or ""
        if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"):
            return AuthenticationError(_not_tls(address, "does not answer with TLS"), ErrorCode.NETWORK_EXCEPTION)
        if "CERTIFICATE_REQUIRED" in reason:
            detail = f"{address} requires a certificate of this client: set ssl_certfile and ssl_keyfile."
            return AuthenticationError(detail, ErrorCode.NETWORK_EXCEPTION)
        if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
            said = reason.rpartition("ALERT_")[2].lower().replace("_", " ")
            detail = (
                f"{address} rejects the certificate of this client, or requires one ({said}): ssl_certfile must be"
                " issued by an authority that the broker trusts, and must not have expired."
            )
            return AuthenticationError(detail, ErrorCode.NETWORK_EXCEPTION)
        detail = (
            f"the TLS handshake with {address} failed ({pem_problem(problem)}): the broker may require a certificate of"
            " this client (ssl_certfile), or other versions or ciphers of TLS."
        )
        return AuthenticationError(detail, ErrorCode.NETWORK_EXCEPTION)
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, _not_tls(address, "closed the connection during the TLS handshake"))


def _not_tls(address: str, what: str) -> str:
    return (
        f"{address} {what}: give the port of a listener with TLS, or set security_protocol to PLAINTEXT or"
        " SASL_PLAINTEXT."
    )


def _certificate_sentence(address: str, problem: ssl.SSLCertVerificationError) -> str:
    match problem.verify_code:
        case code if code == _EXPIRED:
            return f"the certificate of {address} has expired: its operator must renew it."
        case code if code == _NOT_YET_VALID:
            return f"the certificate of {address} is not valid yet: check the clocks of the broker and of this host."
        case code if code == _REVOKED:
            return f"the certificate of {address} is revoked: its operator must replace it."
        case code if code in (_OTHER_NAME, _OTHER_ADDRESS):
            return (
                f"the certificate of {address} is for another name: connect by a name in the certificate"
                " (bootstrap_servers, advertised.listeners); ssl_check_hostname=False would accept any."
            )
    return (
        f"the certificate of {address} is not issued by a trusted authority ({problem.verify_message}): set ssl_cafile"
        " to the PEM file of the authority that issued it."
    )
