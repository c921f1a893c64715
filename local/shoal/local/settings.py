"""Settings: from the command line, SHOAL_* variables, other tools' names (aliases.py), shoal.toml, in this order.

At most 25 at the top; what belongs together is nested. docs/settings.md is made from the descriptions here.
"""

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from shoal.core.caller import DEFAULT_SPACE, Caller
from shoal.core.times import zone_named
from shoal.local.aliases import ALIASES, PREFIX
from shoal.local.home import Home
from shoal.schema.errors import InvalidInput, InvalidSettings, InvalidTime
from shoal.schema.limits import TRASH_DAYS_DEFAULT
from shoal.schema.ontology import Ontology

PORT_DEFAULT: Final = 8377
IDLE_MINUTES_DEFAULT: Final = 15
SYNC_INTERVAL_DEFAULT_S: Final = 15
NO_MODEL: Final = "off"
"""The value of `model` that turns embedding off."""
TOKEN_MIN_CHARS: Final = 16
"""Shorter secrets can be guessed over a network."""
NOT_SETTINGS: Final = frozenset({"SHOAL_HOME", "SHOAL_CONFIG"})
"""Variables that say where the settings are."""


class AliasSource(PydanticBaseSettingsSource):
    """Values from other tools' environment names."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the value of the first alias that is set."""
        for name in ALIASES.get(field_name, ()):
            if value := os.environ.get(name):
                return value, field_name, False
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return {setting: value} of the aliases that are set."""
        found = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: value for name, value in found.items() if value is not None}


class Settings(BaseSettings):
    """What can be set. Each field's description is its documentation."""

    model_config = SettingsConfigDict(
        protected_namespaces=(),
        env_prefix=PREFIX,
        extra="forbid",
        frozen=True,
        env_ignore_empty=True,
        hide_input_in_errors=True,
    )
    toml_file: ClassVar[Path | None] = None

    db: Annotated[Path | None, Field(description="The database file; default: shoal.db in SHOAL_HOME")] = None
    host: Annotated[
        str, Field(description="Address to listen on; one that other machines reach needs `token` as well")
    ] = "127.0.0.1"
    port: Annotated[
        int, Field(ge=0, le=65535, description="Port to listen on; 0 takes a free one; if unset and taken, a free one")
    ] = PORT_DEFAULT
    token: Annotated[
        SecretStr | None,
        Field(description="Token that every client must send; without it any client on this machine may call"),
    ] = None
    allowed_hosts: Annotated[
        tuple[str, ...],
        NoDecode,
        Field(description="Names that clients may call this machine by besides `host` and loopback, with commas"),
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...],
        NoDecode,
        Field(description="Web origins that may call besides the daemon's own, with commas: https://notes.example"),
    ] = ()
    time_zone: Annotated[str, Field(description="IANA name for 'yesterday' and the like; default: the machine's")] = ""
    space: Annotated[str, Field(description="Space that is meant when a caller names none")] = DEFAULT_SPACE
    types: Annotated[
        dict[str, str], Field(description="Your own memory types and the base type of each, {subtype: base type}")
    ] = {}
    model: Annotated[
        str | None,
        Field(
            description="Embedding model: a preset or a name of fastembed's list, default multilingual-e5-small;"
            " `off`: search by words only"
        ),
    ] = None
    model_dir: Annotated[
        Path | None, Field(description="Folder of your own model: model.onnx, the tokenizer, shoal-model.json")
    ] = None
    trash_days: Annotated[
        int, Field(ge=1, le=3650, description="Days that a deleted memory can be revived before it is erased")
    ] = TRASH_DAYS_DEFAULT
    idle_minutes: Annotated[
        float,
        Field(gt=0, le=10_080, description="A daemon that a client started ends after this long without a request"),
    ] = IDLE_MINUTES_DEFAULT
    sync_interval_s: Annotated[
        float,
        Field(
            ge=2,
            le=600,
            description="Seconds between two looks for what others wrote to the edge, while nobody uses the daemon of a"
            " linked memory",
        ),
    ] = SYNC_INTERVAL_DEFAULT_S
    seed: Annotated[
        str,
        Field(description="Memories to plant at the daemon's start: a JSON Lines file or `default`"),
    ] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="How much goes into the log")
    ] = "info"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources, strongest first."""
        sources: list[PydanticBaseSettingsSource] = [init_settings, env_settings, AliasSource(settings_cls)]
        if cls.toml_file is not None:
            sources.append(TomlConfigSettingsSource(settings_cls, toml_file=cls.toml_file))
        return tuple(sources)

    @field_validator("allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _comma_list(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("db", "model_dir")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    @field_validator("host")
    @classmethod
    def _some_host(cls, value: str) -> str:
        # An IPv6 address may be written as in a URL. An empty one would mean every address.
        host = value.strip().removeprefix("[").removesuffix("]")
        if not host:
            raise ValueError("an address is missing; 127.0.0.1 is this machine alone")
        return host

    @field_validator("token")
    @classmethod
    def _usable_token(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        secret = value.get_secret_value()
        if len(secret) < TOKEN_MIN_CHARS:
            raise ValueError(f"must have at least {TOKEN_MIN_CHARS} characters")
        if not secret.isascii() or not secret.isprintable() or " " in secret:
            raise ValueError("can't be sent in a header: use letters, digits and signs of ASCII, and no spaces")
        return value

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        if value:
            try:
                zone_named(value)
            except InvalidTime as error:
                raise ValueError(str(error)) from error
        return value

    @field_validator("space")
    @classmethod
    def _one_space(cls, value: str) -> str:
        try:
            return Caller().space(value)
        except InvalidInput as error:
            raise ValueError(str(error)) from error

    @field_validator("types")
    @classmethod
    def _types_fit(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            Ontology.builtin().extended(value)
        except InvalidSettings as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("seed")
    @classmethod
    def _seed_words(cls, value: str) -> str:
        word = value.strip().lower()
        if word in {"0", "false", "no", "off"}:
            return ""
        return "default" if word in {"1", "true", "yes", "on", "default"} else value.strip()

    @model_validator(mode="after")
    def _no_open_door(self) -> Self:
        if self.token is None and not is_loopback(self.host):
            raise ValueError(f"host {self.host} can be reached from other machines, which needs a token")
        return self


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings with where they came from."""

    settings: Settings
    home: Home
    config: Path | None
    """The file that was read, or None when there is none."""
    warnings: tuple[str, ...]
    """What a person should know, one sentence each."""

    @property
    def database(self) -> Path:
        """The database file."""
        return self.settings.db or self.home.database

    @property
    def port_is_chosen(self) -> bool:
        """Whether someone asked for this very port, so that another one won't do."""
        return "port" in self.settings.model_fields_set


def load(home: Home, config: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Loaded:
    """Read the settings of a home. `config` replaces its shoal.toml; `overrides` come from the command line.

    Raises InvalidSettings, which names each setting but never its value: it may be a secret.
    """
    named = config or (Path(os.environ["SHOAL_CONFIG"]) if os.environ.get("SHOAL_CONFIG") else None)
    file = named or home.config
    if named is not None and not named.is_file():
        raise InvalidSettings(f"There is no settings file {named}.", "Give --config the path of a TOML file.")
    present = file if file.is_file() else None

    class Configured(Settings):
        toml_file = present

    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    try:
        settings = Configured(**given)
    except ValidationError as error:
        problems = "; ".join(_problem(part["loc"], part["msg"]) for part in error.errors(include_input=False))
        raise InvalidSettings(f"These settings can't be used: {problems}.", _mend(file)) from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettings(f"{file} is not valid TOML: {error}.", "Correct that line.") from error
    except (SettingsError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"A setting can't be read: {error}.", _mend(file)) from error
    return Loaded(settings, home, present, tuple(_unknown_variables()))


def _problem(location: tuple[int | str, ...], message: str) -> str:
    text = message.removeprefix("Value error, ")
    name = ".".join(str(part) for part in location)
    if text == "Extra inputs are not permitted":
        text = "is no setting"
    return f"{name}: {text}" if name else text


def _mend(file: Path) -> str:
    return f"Correct the SHOAL_* variable or the line in {file}; docs/settings.md lists all settings."


def _unknown_variables() -> list[str]:
    known = {PREFIX + name.upper() for name in Settings.model_fields} | NOT_SETTINGS
    return [
        f"{name} is no setting and was ignored."
        for name in sorted(os.environ)
        if name.startswith(PREFIX) and name.upper() not in known
    ]


def masked(settings: Settings) -> dict[str, Any]:
    """Return the settings as JSON values with secrets hidden, for doctor and the log."""
    return settings.model_dump(mode="json")
