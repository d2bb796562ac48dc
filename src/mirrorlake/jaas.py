"""Reads ``sasl.jaas.config``: one login module with its options, as Kafka's clients take it.

Source: the class comment of ``org.apache.kafka.common.security.JaasConfig``:
``loginModuleClass controlFlag (optionName=optionValue)*;`` with optional double quotes around values.
"""

import re

from mirrorlake.errors import ConfigurationError
from mirrorlake.security import LoginModule, SaslMechanism

_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([;=])|([^\s;="\']+))')
_ESCAPE = re.compile(r"\\(.)")
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_FORM = 'write: org.apache.kafka.common.security.…LoginModule required name="value" …;'

LOGIN_MODULES = {
    SaslMechanism.PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    SaslMechanism.SCRAM_SHA_256: "org.apache.kafka.common.security.scram.ScramLoginModule",
    SaslMechanism.SCRAM_SHA_512: "org.apache.kafka.common.security.scram.ScramLoginModule",
    SaslMechanism.OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
"""The only login module that fits a mechanism."""

_OPTIONS = {
    SaslMechanism.PLAIN: ("username", "password"),
    SaslMechanism.SCRAM_SHA_256: ("username", "password"),
    SaslMechanism.SCRAM_SHA_512: ("username", "password"),
    SaslMechanism.OAUTHBEARER: ("clientId", "clientSecret", "scope"),
}
_EXTENSION = "extension_"


def read_login_module(text: str) -> LoginModule:
    """Returns the login module of a JAAS configuration.

    Raises:
        ConfigurationError: not of the form, or more than one module; says where, never what stands there.
    """
    words = _words(text)
    if len(words) < 2 or words[1][0] not in _FLAGS:
        raise _refused("it does not begin with a login module and `required`")
    options: dict[str, str] = {}
    at = 2
    while at < len(words) and words[at] != (";", False):
        named = words[at : at + 3]
        if len(named) < 3 or named[1] != ("=", False) or named[2] in ((";", False), ("=", False)):
            raise _refused(f'option {len(options) + 1} is not of the form name="value"')
        options[named[0][0]] = named[2][0]
        at += 3
    if at == len(words):
        raise _refused("it does not end with a semicolon")
    if at + 1 < len(words):
        raise _refused("it holds more than one login module")
    return LoginModule(class_name=words[0][0], options=options)


def check_login_module(module: LoginModule, mechanism: SaslMechanism) -> None:
    """Refuses a login module that does not fit the mechanism, and options that would be ignored.

    Raises:
        ConfigurationError: names class, mechanism or option; never a value.
    """
    wanted = LOGIN_MODULES[mechanism]
    if module.class_name != wanted:
        raise ConfigurationError(
            f"sasl.jaas.config names another login module than sasl.mechanism {mechanism} needs", hint=f"use {wanted}"
        )
    known = _OPTIONS[mechanism]
    for number, name in enumerate(module.options, 1):
        is_extension = mechanism is SaslMechanism.OAUTHBEARER and name.startswith(_EXTENSION)
        if name not in known and not is_extension:
            # Its name is not repeated: of a value without quotes it may be the second half of a password.
            raise ConfigurationError(
                f"option {number} of sasl.jaas.config is not understood with sasl.mechanism {mechanism}",
                hint=f"understood are {', '.join(known)}; a value with spaces, = or ; needs quotes",
            )


def extensions_of(module: LoginModule) -> dict[str, str]:
    """Returns the SASL extensions (KIP-342): options that begin with ``extension_``, without that."""
    return {
        name.removeprefix(_EXTENSION): value for name, value in module.options.items() if name.startswith(_EXTENSION)
    }


def _words(text: str) -> list[tuple[str, bool]]:
    """Returns words and whether each was quoted."""
    words: list[tuple[str, bool]] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _refused(f"character {at + 1} cannot be read: a quote that does not end?")
        double, single, mark, plain = match.groups()
        quoted = double if double is not None else single
        words.append((_ESCAPE.sub(r"\1", quoted), True) if quoted is not None else (mark or plain, False))
        at = match.end()
    return words


def _refused(what: str) -> ConfigurationError:
    return ConfigurationError(f"sasl.jaas.config cannot be read: {what}", hint=_FORM)
