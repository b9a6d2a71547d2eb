"""Certificates of a network: who they are for, who may read them, and what is said of wrong ones."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from situ.core.errors import InputError
from situ.service.certificates import CONTROL, Credentials, identity_of, make_keys


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("network") / "keys"
    make_keys(["hub", "München"], directory)
    return directory


def test_every_site_and_control_have_credentials_of_their_own(keys: Path) -> None:
    folders = make_keys(["hub", "München"], keys)
    read = {site: Credentials.read(folder, identity_of(site) if site else CONTROL) for site, folder in folders.items()}
    assert set(read) == {"hub", "München", ""}
    assert len({credentials.key for credentials in read.values()}) == 3
    assert len({credentials.network for credentials in read.values()}) == 1


def test_keys_are_private(keys: Path) -> None:
    assert {path.stat().st_mode & 0o777 for path in keys.rglob("*") if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in [keys, *keys.rglob("*")] if path.is_dir()} == {0o700}


def test_a_network_that_grows_keeps_its_authority_and_what_was_made(keys: Path, tmp_path: Path) -> None:
    copy = tmp_path / "keys"
    shutil.copytree(keys, copy)
    before = (copy / "sites" / "hub" / "site.key").read_bytes()
    folders = make_keys(["hub", "edge"], copy)
    assert (folders["hub"] / "site.key").read_bytes() == before
    assert Credentials.read(folders["edge"], identity_of("edge")).network == (keys / "authority.crt").read_bytes()


def test_a_private_key_is_not_shown(keys: Path) -> None:
    credentials = Credentials.read(keys / "sites" / "hub", identity_of("hub"))
    assert "PRIVATE" not in repr(credentials)


def test_wrong_credentials_are_told_apart(keys: Path, tmp_path: Path) -> None:
    hub = identity_of("hub")
    others = make_keys(["hub"], tmp_path / "others")

    def refused(change: dict[str, Path] | None = None, identity: str = hub, now: datetime | None = None) -> str:
        folder = tmp_path / "hub"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(keys / "sites" / "hub", folder)
        for name, source in (change or {}).items():
            shutil.copy(source, folder / name)
        with pytest.raises(InputError) as told:
            Credentials.read(folder, identity, now)
        return told.value.cause

    garbage = tmp_path / "garbage"
    garbage.write_text("no certificate")
    assert "another network" in refused({"network.crt": others["hub"] / "network.crt"})
    assert "do not belong together" in refused({"site.key": others["hub"] / "site.key"})
    assert "no certificate and key" in refused({"site.crt": garbage})
    assert "that of 'hub'" in refused(identity=identity_of("edge"))
    assert "has expired on" in refused(now=datetime.now(UTC) + timedelta(days=400))
    assert "not yet" in refused(now=datetime.now(UTC) - timedelta(days=1))
    with pytest.raises(InputError, match="cannot be read"):
        Credentials.read(tmp_path / "nowhere", hub)
    with pytest.raises(InputError, match="cannot hold for 0 days"):
        make_keys(["hub"], tmp_path / "none", days=0)
