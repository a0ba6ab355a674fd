"""Configuration: precedence, sources, and errors that name source and key in one sentence, never a value."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsercell.protocol.errors import UsageError
from browsercell.protocol.settings import NetworkMode
from browsercell.supervisor import config


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "user_file", lambda: tmp_path / "user.toml")
    return tmp_path


def load(place: Path, environment: dict[str, str] | None = None, **flags: str) -> config.Loaded:
    return config.load(
        directory=place,
        environment=environment or {},
        flags={key.replace("__", "."): value for key, value in flags.items()},
    )


def test_no_file_is_all_defaults(places: Path) -> None:
    loaded = load(places)
    assert loaded.configuration == config.Configuration()
    assert loaded.configuration.network.mode is NetworkMode.STRICT
    assert loaded.source("network.mode") == config.DEFAULT


def test_later_sources_win_and_are_remembered(places: Path) -> None:
    (places / "user.toml").write_text("[bridge]\nport = 1001\n[limits]\nsteps = 9\nseconds = 20\n")
    (places / config.PROJECT_FILE).write_text("[bridge]\nport = 1002\n[limits]\nsteps = 8\n")
    loaded = load(places, {"BROWSERCELL_BRIDGE_PORT": "1003", "OTHER": "x"})
    assert loaded.configuration.bridge.port == 1003
    assert loaded.configuration.limits.steps == 8
    assert loaded.configuration.limits.seconds == 20
    assert loaded.source("bridge.port") == "BROWSERCELL_BRIDGE_PORT"
    assert loaded.source("limits.steps").endswith(config.PROJECT_FILE)
    assert loaded.source("limits.seconds").endswith("user.toml")
    loaded = load(places, {"BROWSERCELL_BRIDGE_PORT": "1003"}, bridge__port="1004")
    assert loaded.configuration.bridge.port == 1004
    assert loaded.source("bridge.port") == "--set bridge.port"


def test_one_file_can_replace_the_others(places: Path) -> None:
    (places / "user.toml").write_text("[bridge]\nport = 1001\n")
    (places / "only.toml").write_text("[limits]\nsteps = 3\n")
    loaded = config.load(directory=places, environment={}, file=places / "only.toml")
    assert loaded.configuration.limits.steps == 3
    assert loaded.source("bridge.port") == config.DEFAULT
    with pytest.raises(UsageError, match="no configuration file"):
        config.load(directory=places, environment={}, file=places / "absent.toml")


def test_lists_come_comma_separated_from_environment_and_flags(places: Path) -> None:
    loaded = load(
        places,
        {"BROWSERCELL_NETWORK_ALLOW_HOSTS": "a.example, .b.example", "BROWSERCELL_NETWORK_MODE": "allowlist"},
        network__allow_cidrs="127.0.0.0/8",
    )
    assert loaded.configuration.network.allow_hosts == ("a.example", ".b.example")
    assert loaded.configuration.network.allow_cidrs == ("127.0.0.0/8",)


def test_the_set_up_scripts_variable_names_chromium(places: Path) -> None:
    assert (
        load(places, {"BROWSERCELL_CHROMIUM": "/x/chromium"}).configuration.chromium.executable
        == "/x/chromium"
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[netwrok]\n", ("[netwrok]", "did you mean network?")),
        ("[zzz]\n", ("[zzz]", "known: places")),
        ("[network]\nmod = 'strict'\n", ("no key mod", "did you mean mode?")),
        (
            "[network]\nmode = 'sekret'\n",
            ("network.mode", "Not one of the allowed values: strict, allowlist, unrestricted"),
        ),
        ("network = 3\n", ("[network] is a section",)),
        ("[bridge]\nport = 'x'\n", ("bridge.port", "Expected `int`")),
        ("[bridge]\nport = 70000\n", ("bridge.port", "65535")),
        ("[bridge]\nhost = '0.0.0.0'\n", ("bridge.host", "127.0.0.1")),
        ("[bridge]\nallowed_extensions = ['sekret']\n", ("bridge.allowed_extensions",)),
        ("[network]\nallow_cidrs = ['sekret']\n", ("network.allow_cidrs",)),
        ("[network]\ndeny_cidrs = ['10.0.0.1/8']\n", ("network.deny_cidrs",)),
        ("[network]\nmode = 'allowlist'\nallow_hosts = ['http://sekret']\n", ("network.allow_hosts",)),
        ("[network]\nallow_cidrs = ['10.0.0.0/8']\n", ("network.allow_cidrs", "no effect", "allowlist")),
        ("[network]\nallow_hosts = ['a.example']\n", ("network.allow_hosts", "no effect")),
        ("[model]\nsoft_tokens = 130000\n", ("model.hard_tokens",)),
        ("[model]\nwindow = 100000\n", ("model.hard_tokens",)),
        ("[model]\napi_key_file = 'sekret'\n", ("model.api_key_file", "absolute")),
        ("[model]\nmodel = 'm'\n", ("model.base_url", "missing")),
        ("[model]\nbase_url = 'ftp://sekret'\n", ("model.base_url", "https")),
        ("[model]\nbase_url = 'http://api.sekret'\n", ("model.base_url", "loopback only")),
        ("[model]\nbase_url = 'https://u:sekret@api'\n", ("model.base_url", "api_key_file")),
        ("[model]\nbase_url = 'https://[sekret'\n", ("model.base_url", "not a URL")),
        ("[places]\nstate_folder = 'sekret'\n", ("places.state_folder", "absolute")),
        ("[sandbox\n", ("not valid TOML",)),
    ],
)
def test_errors_name_source_and_key_but_no_value(places: Path, text: str, parts: tuple[str, ...]) -> None:
    (places / config.PROJECT_FILE).write_text(text)
    with pytest.raises(UsageError) as error:
        load(places)
    sentence = str(error.value)
    assert config.PROJECT_FILE in sentence
    assert all(part in sentence for part in parts), sentence
    assert "sekret" not in sentence
    assert "\n" not in sentence.replace("(at line", "")


def test_loopback_endpoints_may_be_plain_http(places: Path) -> None:
    for url in (
        "http://127.0.0.1:11434/v1",
        "http://localhost:8080/v1",
        "http://[::1]:1/v1",
        "https://api.example/v1",
    ):
        assert load(places, model__base_url=url).configuration.model.base_url == url


def test_addresses_are_allowed_hosts(places: Path) -> None:
    assert load(
        places, network__mode="allowlist", network__allow_hosts="::1,10.0.0.1"
    ).configuration.network.allow_hosts == (
        "::1",
        "10.0.0.1",
    )


def test_files_that_are_no_configuration(places: Path) -> None:
    path = places / config.PROJECT_FILE
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        load(places)
    path.write_bytes(b"#" * (config.MAX_FILE_BYTES + 1))
    with pytest.raises(UsageError, match="larger than"):
        load(places)
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="can't be read"):
        load(places)


def test_settings_for_the_supervisor(places: Path) -> None:
    loaded = load(
        places,
        places__runtime_folder="/run/x",
        places__state_folder="/var/x",
        model__api_key_file="~/key",
        workers__pool_size="3",
        debug__inspection="true",
    )
    settings = config.supervisor_settings(loaded.configuration)
    assert settings.runtime_folder == "/run/x"
    assert settings.bridge.state_folder == "/var/x"
    assert settings.pool_size == 3
    assert settings.inspection
    assert not settings.model.api_key_file.startswith("~")


def test_a_runtime_folder_too_long_for_a_socket_is_refused(places: Path) -> None:
    loaded = load(places, places__runtime_folder="/" + "x" * 60)
    with pytest.raises(UsageError, match="60 bytes"):
        config.supervisor_settings(loaded.configuration)


def test_defaults_have_folders(places: Path) -> None:
    settings = config.supervisor_settings(load(places).configuration)
    assert settings.runtime_folder.startswith("/")
    assert settings.state_folder.startswith("/")


def test_the_schema_describes_every_key() -> None:
    schema = config.schema()
    sections = schema["$defs"]["Configuration"]["properties"]
    assert set(sections) == set(config.SECTIONS)
