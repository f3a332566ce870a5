"""The app as `make run` starts it, on a free port of this machine."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 60  # seconds


class Server:
    """One Streamlit server, whose log is read."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/"
        self._log = folder / "server.log"
        command = [sys.executable, "-m", "components.serve"]
        options = ["--server.address", "127.0.0.1", "--server.port", str(port)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command + options,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"},
            )

    def wait(self) -> None:
        """Returns once the server says that it is healthy."""
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}_stcore/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"the server did not start:\n{self.log}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def log(self) -> str:
        """All that the server has said."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def passes(self) -> int:
        """Forward passes since the start, of all readers: each leaves a line in the log."""
        return self.log.count("forward pass: ")
