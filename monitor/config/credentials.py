"""Credentials and certificates, wherever acceptd asks something over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from monitor.config.section import Section, one_of


class Auth(Section):
    """Credentials; they go to the origin they are set for and nowhere else."""


    bearer_token: SecretStr | None = Field(None, description="Token sent as `Authorization: Bearer`.")
    bearer_token_file: Path | None = Field(None, description="File whose first line is the bearer token.")
    username: str | None = Field(None, description="User of HTTP basic auth.")
    password: SecretStr | None = Field(None, description="Password of HTTP basic auth.")
    password_file: Path | None = Field(None, description="File whose first line is the password.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        one_of(self, "bearer_token", "bearer_token_file")
        one_of(self, "password", "password_file")
        if self.username and (self.bearer_token or self.bearer_token_file):
            raise ValueError("either a bearer token or a user and password")
        return self


class Tls(Section):
    """How a server's certificate is checked and which one we show."""

    ca_file: Path | None = Field(None, description="CA bundle to trust instead of the system's.")
    cert_file: Path | None = Field(None, description="Client certificate (PEM) for mutual TLS.")
    key_file: Path | None = Field(None, description="Key of the client certificate.")
    insecure_skip_verify: bool = Field(False, description="Do not verify the server's certificate.")
