"""Discovery over several scripts at once, each in a process of its own."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import cast

from benchorch.domain.trial import ConfigNode
from benchorch.formatting import plural
from benchorch.frontends.scripts.discover import Enough, Script, discover
from benchorch.frontends.scripts.discover_on_nodes import (
    discover_on_nodes,
    not_run,
    request_for,
)
from benchorch.frontends.scripts.kept import kept, remember
from benchorch.frontends.scripts.model_configs import described
from benchorch.interfaces.executor import Executor

_INTERRUPTED = "it was not started: interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """How scripts are looked through.

    Attributes:
        timeout_s: how long each may run.
        keep: whether inputs and weights are taken down, to be benchmarked.
        jobs: how many run at a time.
        resume: whether what was found before is taken where nothing has changed.
        enough: when a script is ended early.
        sandboxed: those that run in a `host.sandbox`.
        executor: on whose nodes they run; None for this machine.
    """

    timeout_s: float
    keep: bool
    jobs: int
    resume: bool
    enough: Enough
    sandboxed: frozenset[Script] = frozenset()
    executor: Executor | None = None

    def _how(self, script: Script) -> str:
        enough = f"first {self.enough.first}, quiet {self.enough.quiet_s}"
        return f"keep {self.keep}, {enough}, sandboxed {script in self.sandboxed}"

    def run(self, scripts: Sequence[Script], say: Callable[[str], None]) -> list[ConfigNode]:
        """What each script calls, in their order; Ctrl-C ends those that run and starts no more."""
        elsewhere = self._on_nodes(scripts, say) if self.executor is not None else None
        if elsewhere is not None:
            return elsewhere
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            futures = [pool.submit(self._one, script, say, len(scripts) > 1) for script in scripts]
            try:
                self._await(futures, say)
            except BaseException:
                self.enough.requested.set()
                pool.shutdown(cancel_futures=True)
                raise
            return [future.result() for future in futures]

    def _on_nodes(
        self, scripts: Sequence[Script], say: Callable[[str], None]
    ) -> list[ConfigNode] | None:
        """What each script calls on a node; None where the executor has none."""
        assert self.executor is not None
        founds = {each: self._kept(each, say) for each in scripts}
        asked = [script for script, found in founds.items() if found is None]
        requests = [
            request_for(
                script,
                timeout_s=self.timeout_s,
                keep=self.keep,
                sandboxed=script in self.sandboxed,
                quiet_s=self.enough.quiet_s,
                first=self.enough.first,
            )
            for script in asked
        ]
        replies = discover_on_nodes(self.executor, requests)
        if replies is None:
            return None
        say(f"running {plural(len(asked), 'script')} on the executor's nodes")
        try:
            for number, found in replies:
                founds[asked[number]] = found
                self._remember(asked[number], found)
                models = cast("list[ConfigNode]", found["models"])
                say(f"  {asked[number].path.name}: {plural(len(models), 'model')}")
        except KeyboardInterrupt:
            say("interrupted: going on with what was found so far")
        return [founds[script] or not_run(script, _INTERRUPTED) for script in scripts]

    def _kept(self, script: Script, say: Callable[[str], None]) -> ConfigNode | None:
        """What was found before, where that is to be reused and nothing has changed."""
        found = kept(script, self._how(script), self.timeout_s) if self.resume else None
        if found is not None:
            say(f"{script.path.name}: nothing has changed; what was found before is taken")
        return found

    def _remember(self, script: Script, found: ConfigNode) -> None:
        if script.path.is_file():
            remember(script, found, self._how(script), self.timeout_s)

    def _await(self, futures: Sequence[Future[ConfigNode]], say: Callable[[str], None]) -> None:
        try:
            wait(futures)
        except KeyboardInterrupt:
            self.enough.requested.set()
            say("interrupted: going on with what was found so far; again to quit")
            wait(futures)

    def _one(self, script: Script, say: Callable[[str], None], several: bool) -> ConfigNode:
        if self.enough.requested.is_set():
            return not_run(script, _INTERRUPTED)
        found = self._kept(script, say)
        if found is not None:
            return found
        where = " in a sandbox" if script in self.sandboxed else ""
        say(f"running {script.path.name}{where}; its output is in {script.log}")
        before = f"{script.path.name}: " if several else ""

        def on_call(model: ConfigNode, call: ConfigNode) -> None:
            size = f"{cast(int, model['parameters']):,} parameters"
            kind = str(model["class"]).rpartition(".")[2]
            say(f"  {before}{model['name']} ({kind}, {size}): {described(call)}")

        found = discover(
            script,
            timeout_s=self.timeout_s,
            keep=self.keep,
            enough=self.enough,
            on_call=on_call,
            sandboxed=script in self.sandboxed,
        )
        self._remember(script, found)
        return found
