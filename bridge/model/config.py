"""Judges the settings of the model endpoint before anything is sent there.

Invariants: a key goes over https, or over http to a loopback address of this machine, nowhere else; no setting is
repaired silently. Pure: settings in, one closed word out; whether the key file can be read is `key.py`'s business.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from ...protocol.frames import ModelProblem
from ...protocol.settings import ModelSettings


def url_problem(url: str) -> ModelProblem:
    """NONE for an absolute https URL, or http on loopback, without user info, query or fragment; else INSECURE_URL."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return ModelProblem.INSECURE_URL
    if not host or parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        return ModelProblem.INSECURE_URL
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return ModelProblem.NONE
    return ModelProblem.INSECURE_URL


def is_loopback(host: str) -> bool:
    """Whether `host` is `localhost` or a literal loopback address; no name is resolved."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def problem_of(settings: ModelSettings) -> ModelProblem:
    """What is wrong with the settings themselves, NONE if they can be tried."""
    if not settings.model or not settings.base_url:
        return ModelProblem.NOT_CONFIGURED
    return url_problem(settings.base_url)


def limits_hold(settings: ModelSettings) -> bool:
    """soft < hard < the model's window (design 8)."""
    return settings.soft_tokens < settings.hard_tokens < settings.window
