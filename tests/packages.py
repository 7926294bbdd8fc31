"""Makes the packages of a program and uses them: installs, upgrades, removes and purges the Debian package, runs the container image.

    python3 tests/packages.py --binary target/release/mayfly
    python3 tests/packages.py --binary target/release/mayfly --debootstrap     in a new Debian instead of a copy of this one

Needs root for a root folder of its own; without root the contents are checked, and the rest says that it is skipped.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Limit that distinguishes a server that hangs from a busy machine.
LIMIT_S = 60.0
# A time that the packages must contain instead of the present.
EPOCH = "1700000000"
COMPLETIONS = ["share/bash-completion/completions/mayfly", "share/zsh/vendor-completions/_mayfly", "share/fish/vendor_completions.d/mayfly.fish"]
STATE = ["/var/lib/mayfly", "/var/log/mayfly"]
# Numbers of the devices that programs expect.
DEVICES = {"null": (1, 3), "zero": (1, 5), "random": (1, 8), "urandom": (1, 9)}


def run(*command: object, **options) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, **options)
    assert done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def dist(binary: Path, out: Path) -> dict[str, Path]:
    """Makes the packages. Returns them by their endings."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    text = run("cargo", "run", "--locked", "--quiet", "--package", "xtask", "--", "dist", "--binary", binary, "--out", out, cwd=ROOT, env=environment)
    paths = [Path(line) for line in text.splitlines() if line.startswith(str(out))]
    kinds = {"-debug.tar.gz": "debug", ".deb": "deb", ".cdx.json": "bill", "SHA256SUMS": "sums", ".tar.gz": "archive", ".tar": "image"}
    found = {}
    for path in paths:
        found[next(kind for ending, kind in kinds.items() if path.name.endswith(ending))] = path
    assert len(found) == len(kinds), paths
    return found


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check_sums(made: dict[str, Path]) -> None:
    for line in made["sums"].read_text().splitlines():
        digest, name = line.split()
        assert sha256((made["sums"].parent / name).read_bytes()) == digest, name


def check_archive(made: dict[str, Path]) -> None:
    with tarfile.open(made["archive"]) as archive:
        names = {"/".join(member.name.split("/")[1:]): member for member in archive.getmembers()}
        for name in ["bin/mayfly", "LICENSE", "THIRD-PARTY.txt", "share/man/man1/mayfly.1", "share/man/man1/mayfly-sim-curve.1", "share/man/man5/mayfly.conf.5", *COMPLETIONS, "contrib/compose/compose.yaml"]:
            assert name in names and names[name].size > 0, name
        assert all(member.mtime == int(EPOCH) and member.uid == 0 for member in names.values())
        notices = archive.extractfile(names["THIRD-PARTY.txt"]).read().decode()
        # The C libraries in the program, whose licences are not in the top folders of their packages.
        for part in ["Lua.org", "jemalloc", "zstd", "aws-lc-sys "]:
            assert part in notices, part


def check_bill(path: Path) -> None:
    """Names, versions and checksums are those of Cargo.lock, and every dependency is listed."""
    bill = json.loads(path.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    lock = (ROOT / "Cargo.lock").read_text()
    components = [bill["metadata"]["component"], *bill["components"]]
    references = {component["bom-ref"] for component in components}
    assert len(references) == len(components) > 50
    for component in components:
        assert component["purl"] == f"pkg:cargo/{component['name']}@{component['version']}"
        assert component["licenses"][0]["expression"], component
        assert f'name = "{component["name"]}"\nversion = "{component["version"]}"' in lock, component
        for known in component.get("hashes", []):
            assert f'checksum = "{known["content"]}"' in lock, component
    for entry in bill["dependencies"]:
        assert entry["ref"] in references and references.issuperset(entry["dependsOn"]), entry
    scopes = {component["name"]: component["scope"] for component in components}
    assert scopes["rustls"] == "required" and scopes["clap_derive"] == "excluded"


class Machine:
    """A root folder: a copy of this machine's that is thrown away (an overlay), or a new Debian."""

    def __init__(self, folder: Path, has_debootstrap: bool):
        self.top = folder / "machine"
        self.changes = folder / "changes"
        for path in [self.top, self.changes, folder / "work"]:
            path.mkdir()
        if has_debootstrap:
            run("debootstrap", "--variant=minbase", "--include=adduser,init-system-helpers", "bookworm", self.top)
        else:
            run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={self.changes},workdir={folder / 'work'}", self.top)
        self.is_overlay = not has_debootstrap
        # Files that the installation may have left.
        self.written = self.changes if self.is_overlay else self.top
        # Nothing of this machine is mounted inside, because the folder is removed at the end.
        run("mount", "-t", "proc", "proc", self.path("/proc"))
        for name, (major, minor) in DEVICES.items():
            place = self.path(f"/dev/{name}")
            if not place.exists():
                os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
                place.chmod(0o666)

    def close(self) -> None:
        run("umount", self.path("/proc"))
        if self.is_overlay:
            run("umount", self.top)

    def path(self, name: str) -> Path:
        return self.top / name.lstrip("/")

    def run(self, *command: object) -> str:
        return run("chroot", self.top, *command)

    def install(self, package: Path) -> str:
        shutil.copy(package, self.path("/tmp/new.deb"))
        return self.run("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--force-confold", "--install", "/tmp/new.deb")

    def has_user(self) -> bool:
        return any(line.startswith("mayfly:") for line in self.path("/etc/passwd").read_text().splitlines())


class Running:
    """A server that was started by a command line, and the command that asks whether it answers."""

    def __init__(self, command: list[str], ping: list[str]):
        self.ping = ping
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        limit = time.monotonic() + LIMIT_S
        while subprocess.run(ping, capture_output=True).returncode != 0:
            assert self.process.poll() is None, f"{command} ended:\n{self.process.stdout.read()}"
            assert time.monotonic() < limit, f"{command} does not answer"
        # Another server may have taken the port meanwhile, and answered instead.
        assert self.process.poll() is None, f"{command} ended:\n{self.process.stdout.read()}"

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.end()
        else:
            self.process.kill()
            self.process.wait()

    def end(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        text, _ = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode == 0, text
        # Nothing answers any more.
        done = subprocess.run(self.ping, capture_output=True, text=True)
        assert done.returncode == 1 and "no server at" in done.stderr, done.stderr
        return text


def call(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
        client.sendall(request)
        return client.recv(4096)


def check_policy(port: int) -> None:
    """The packages evicted keys of any type, so that jobs of queues were lost without an error."""
    assert call(port, b"CONFIG GET maxmemory-policy\r\n").endswith(b"\r\nnoeviction\r\n")
    assert not call(port, b"CONFIG GET maxmemory\r\n").endswith(b"\r\n0\r\n")


def check_installation(machine: Machine, package: Path, folder: Path) -> None:
    configuration = machine.path("/etc/mayfly/mayfly.conf")
    machine.install(package)
    assert machine.has_user()
    assert oct(configuration.stat().st_mode)[-3:] == "640"
    for state in STATE:
        assert oct(machine.path(state).stat().st_mode)[-3:] == "750" and machine.path(state).stat().st_uid != 0, state
    assert machine.path("/etc/systemd/system/multi-user.target.wants/mayfly.service").is_symlink()
    assert machine.run("mayfly", "--version").startswith("mayfly ")
    for name in [*COMPLETIONS, "share/man/man5/mayfly.conf.5.gz"]:
        assert machine.path(f"/usr/{name}").exists(), name

    # The unit's command line, as its user. The port is changed as an administrator would do it.
    port = free_port()
    configuration.write_text(configuration.read_text().replace("port 6379", f"port {port}") + "save 3600 1\n")
    unit = machine.path("/usr/lib/systemd/system/mayfly.service").read_text()
    start = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=").split()
    as_user = ["chroot", "--userspec=mayfly:mayfly", str(machine.top)]
    with Running([*as_user, *start], [*as_user, "mayfly", "ping", "/etc/mayfly/mayfly.conf"]):
        assert call(port, b"SET k v PX 3600000\r\n") == b"+OK\r\n"
        check_policy(port)
    snapshot = machine.path("/var/lib/mayfly/dump.rdb")
    assert snapshot.stat().st_size > 0

    # An upgrade keeps the configuration, the snapshot and the user.
    newer = folder / "newer"
    run("dpkg-deb", "--raw-extract", package, newer)
    control = newer / "DEBIAN/control"
    control.write_text(control.read_text().replace("\nVersion: ", "\nVersion: 1:"))
    run("dpkg-deb", "--root-owner-group", "-Znone", "--build", newer, folder / "newer.deb")
    machine.install(folder / "newer.deb")
    assert f"port {port}" in configuration.read_text() and oct(configuration.stat().st_mode)[-3:] == "640"
    with Running([*as_user, *start], [*as_user, "mayfly", "ping", "/etc/mayfly/mayfly.conf"]):
        reply = call(port, b"GET k\r\n")
        assert reply == b"$1\r\nv\r\n", reply

    machine.run("dpkg", "--remove", "mayfly")
    assert not machine.path("/usr/bin/mayfly").exists()
    assert configuration.exists() and snapshot.exists() and machine.has_user()
    machine.run("dpkg", "--purge", "mayfly")
    assert not configuration.exists() and not machine.has_user()
    folders = [machine.written / name for name in ["etc", "usr", "var", "run"]]
    left = [str(path) for top in folders if top.exists() for path in top.rglob("*mayfly*")]
    assert not left, left


def check_image(path: Path, folder: Path) -> dict:
    """Every checksum and size in the layout, and the configuration, which it returns. Unpacks the layers."""
    layout = folder / "layout"
    with tarfile.open(path) as archive:
        archive.extractall(layout, filter="data")

    def blob(descriptor: dict) -> bytes:
        algorithm, digest = descriptor["digest"].split(":")
        data = (layout / "blobs" / algorithm / digest).read_bytes()
        assert (sha256(data), len(data)) == (digest, descriptor["size"]), descriptor
        return data

    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    docker = json.loads((layout / "manifest.json").read_text())[0]
    assert docker["Config"].split("/")[-1] == manifest["config"]["digest"].split(":")[1]
    assert (config["os"], config["created"]) == ("linux", "2023-11-14T22:13:20Z")
    assert len(config["rootfs"]["diff_ids"]) == len(manifest["layers"]) == len(docker["Layers"])
    for layer, contents in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        packed = folder / "layer.tar.gz"
        packed.write_bytes(blob(layer))
        plain = subprocess.run(["gzip", "--decompress", "--stdout", packed], check=True, stdout=subprocess.PIPE).stdout
        assert "sha256:" + sha256(plain) == contents
        (folder / "layer.tar").write_bytes(plain)
        with tarfile.open(folder / "layer.tar") as archive:
            uids = {member.name: member.uid for member in archive.getmembers()}
        assert uids["data"] == 65532 and {uid for name, uid in uids.items() if name != "data"} == {0}
    assert not any(name.endswith(("/sh", "/bash")) for name in uids)
    process = config["config"]
    assert process["User"] == "65532:65532" and process["Healthcheck"]["Test"][0] == "CMD"
    return process


def run_image(folder: Path, process: dict) -> None:
    """Runs the image's command as its user in its root."""
    root = folder / "image"
    root.mkdir()
    run("tar", "--extract", "--file", folder / "layer.tar", "--directory", root)
    port = free_port()
    variables = dict(line.split("=", 1) for line in process["Env"]) | {"MAYFLY_PORT": str(port), "MAYFLY_SAVE": "3600 1", "MAYFLY_PROTECTED_MODE": "no"}
    words = [f"{name}={value}" for name, value in variables.items()]
    enter = ["env", "-i", *words, shutil.which("chroot"), f"--userspec={process['User']}", "--groups=", str(root)]
    server = Running([*enter, *process["Entrypoint"], *process["Cmd"]], [*enter, *process["Healthcheck"]["Test"][1:]])
    assert call(port, b"SET k v PX 3600000\r\n") == b"+OK\r\n"
    check_policy(port)
    server.end()
    assert (root / "data/dump.rdb").stat().st_size > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True, help="the program to pack")
    parser.add_argument("--debootstrap", action="store_true", help="install into a new Debian, from its mirror")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mayfly-packages-") as name:
        folder = Path(name)
        made = dist(chosen.binary.resolve(), folder / "out")
        done = skipped = 0

        def run_check(title: str, check, *arguments):
            nonlocal done
            started = time.monotonic()
            result = check(*arguments)
            done += 1
            print(f"ok   {title} {time.monotonic() - started:.1f} s", flush=True)
            return result

        run_check("checksums", check_sums, made)
        run_check("archive", check_archive, made)
        run_check("bill of materials", check_bill, made["bill"])
        process = run_check("image", check_image, made["image"], folder)
        if os.geteuid() == 0:
            run_check("run of the image", run_image, folder, process)
            machine = Machine(folder, chosen.debootstrap)
            try:
                run_check("installation", check_installation, machine, made["deb"], folder)
            finally:
                machine.close()
        else:
            print("skipped: the image is run and the Debian package is installed by root only")
            skipped = 2
    print(f"{done} passed, 0 failed, {skipped} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
