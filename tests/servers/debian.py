"""Programs of Debian packages, without installing them: unpacked into a cache, and found there the next time."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic


class ServerUnavailable(Exception):
    """A server that a test needs can be neither found nor fetched nor started; says why."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and what it needs in its environment."""

    path: Path
    environment: Mapping[str, str]

    def beside(self, name: str) -> Program:
        """Another program of the same directory."""
        return Program(self.path.with_name(name), self.environment)


def program(package: str, patterns: Sequence[str]) -> Program:
    """The program that one of the patterns finds: on this machine, else in the unpacked package."""
    found = _first(Path("/"), patterns)
    if found is not None:
        return Program(found, os.environ)
    tree = _unpacked(package)
    found = _first(tree, patterns)
    if found is None:
        raise ServerUnavailable(f"the package {package} has none of {', '.join(patterns)}")
    libraries = {str(file.parent) for file in tree.rglob("*.so*")}
    known = filter(None, [os.environ.get("LD_LIBRARY_PATH")])
    return Program(found, {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join([*sorted(libraries), *known])})


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port: int = chosen.getsockname()[1]
        return port


def wait_until(true: Callable[[], object], what: str, timeout_s: float = 120.0) -> None:
    """Asks again and again, because a server or a query does not say when it is so far."""
    pause, deadline = threading.Event(), monotonic() + timeout_s
    while not true():
        if monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {timeout_s:g} s")
        pause.wait(0.02)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _first(root: Path, patterns: Sequence[str]) -> Path | None:
    found = [path for pattern in patterns for path in sorted(root.glob(pattern.lstrip("/")), reverse=True)]
    return found[0] if found else None


def _cache() -> Path:
    """A directory that other users can read, too: some servers refuse to run as root, and root's home is closed."""
    if os.geteuid() == 0:
        return Path("/var/cache/situ/servers")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "situ" / "servers"


def _unpacked(package: str) -> Path:
    """The files of a package and of all packages that it needs and that are not installed."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise ServerUnavailable(f"{package} is not installed, and without {tool} it cannot be fetched")
    home = _cache()
    tree = home / package
    if tree.exists():
        return tree
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as name:
        scratch = Path(name)
        scratch.chmod(0o755)
        _fetch(package, scratch, home)
        unpacked = scratch / "tree"
        for archive in sorted(scratch.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(archive), str(unpacked)], scratch)
        try:
            unpacked.rename(tree)  # all or nothing: nobody ever sees half a package
        except OSError:
            if not tree.exists():  # else another process was faster
                raise
    return tree


def _fetch(package: str, into: Path, home: Path) -> None:
    """Into a directory, with this machine's lists of packages; if it has none, with fresh ones of our own."""
    options = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    try:
        _download(package, into, options)
    except ServerUnavailable:
        for directory in ("state/lists/partial", "cache/archives/partial"):
            (home / "apt" / directory).mkdir(parents=True, exist_ok=True)
        own = {"Dir::State": home / "apt/state", "Dir::State::lists": home / "apt/state/lists"}
        own |= {"Dir::State::status": Path("/var/lib/dpkg/status"), "Dir::Cache": home / "apt/cache"}
        options += [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
        _run(["apt-get", *options, "update"], into)
        _download(package, into, options)


def _download(package: str, into: Path, options: list[str]) -> None:
    plan = _run(["apt-get", *options, "--simulate", "--no-install-recommends", "install", package], into)
    names = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    _run(["apt-get", *options, "download", *names], into)


def _run(command: list[str], directory: Path) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = done.stderr.strip().splitlines()[-1:]
        raise ServerUnavailable(f"'{' '.join(command)}' failed: {' '.join(tail)}")
    return done.stdout
