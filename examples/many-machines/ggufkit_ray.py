#!/usr/bin/env python3
"""Makes the parts of a plan on a Ray cluster, and completes the output.

    gguf quantize s3://bucket/model.gguf s3://bucket/small.gguf Q4_K_M --plan-only plan.json
    python ggufkit_ray.py plan.json --address auto --threads 8

Each part is a plain task that calls `gguf part`, so `gguf` must be installed on all nodes, in the same version, and the plan, the source and the
output must be reachable from them (a shared file system, or URLs with the credentials in the environment of the workers). Tasks are taken from a
queue: a fast node makes more parts than a slow one. A part whose worker dies, or that ends with 75 (try again), is made again; 2 (never) ends the
script. Near the end, parts that take long are started a second time on idle nodes. The script may be killed and started again: parts that are done
are not made again. Exit codes: 0 done, 75 try again, 2 never.
"""

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import time

import ray

DONE, NEVER, TRY_AGAIN = 0, 2, 75


def run(args):
    """Runs gguf; returns its exit code and what it printed. Death by a signal may happen again or not."""
    done = subprocess.run(args, capture_output=True, text=True)
    code = done.returncode if done.returncode in (DONE, NEVER) else TRY_AGAIN
    return code, done.stdout, done.stderr.strip()


def make(gguf, plan, index, threads):
    code, _, said = run([gguf, "part", plan, "--index", str(index), "--threads", str(threads), "--quiet"])
    return index, code, said


class Queue:
    """The parts that are left, and the tasks that run."""

    def __init__(self, options, missing):
        self.options, self.left = options, collections.deque(missing)
        self.n, self.n_done = len(missing), 0
        self.tries, self.seconds, self.done = collections.Counter(), [], set()
        self.running = {}  # the task: index and start
        self.task = ray.remote(num_cpus=options.threads, max_retries=3)(make)

    def start(self, index):
        options = self.options
        task = self.task.remote(options.gguf, options.plan, index, options.threads)
        self.running[task] = index, time.monotonic()

    def fill(self, slots):
        while self.left and len(self.running) < slots:
            self.start(self.left.popleft())
        # Stragglers: the slowest part that runs once, if it takes much longer than others did.
        if self.left or len(self.running) >= slots or len(self.seconds) < 3:
            return
        often = collections.Counter(index for index, _ in self.running.values())
        limit = self.options.straggler * statistics.median(self.seconds)
        slow = [(start, index) for index, start in self.running.values() if often[index] == 1 and index not in self.done]
        if slow and time.monotonic() - min(slow)[0] > limit:
            self.start(min(slow)[1])

    def finished(self, task):
        index, start = self.running.pop(task)
        try:
            _, code, said = ray.get(task)
        except ray.exceptions.RayError as e:
            code, said = TRY_AGAIN, str(e)
        if code == DONE:
            self.seconds.append(time.monotonic() - start)
            if index not in self.done:
                self.done.add(index)
                self.n_done += 1
            return
        if index in self.done:
            return
        print(f"part {index}: {said}", file=sys.stderr)
        self.tries[index] += 1
        if code == NEVER or self.tries[index] >= self.options.tries:
            sys.exit(code)
        self.left.append(index)

    def run(self):
        while self.left or any(index not in self.done for index, _ in self.running.values()):
            self.fill(max(1, int(ray.cluster_resources().get("CPU", 1)) // self.options.threads))
            ready, _ = ray.wait(list(self.running), timeout=1)
            for task in ready:
                self.finished(task)
            if ready and not self.options.quiet:
                print(f"{self.n_done} of {self.n} parts", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("plan")
    parser.add_argument("--address", help="address of the cluster; by default, Ray starts on this machine")
    parser.add_argument("--threads", type=int, default=1, help="threads, and CPUs, of a part")
    parser.add_argument("--workers", type=int, help="CPUs of this machine, without --address")
    parser.add_argument("--tries", type=int, default=5, help="how often a part may fail")
    parser.add_argument("--straggler", type=float, default=2, help="start a part again after this many times the median")
    parser.add_argument("--gguf", default="gguf", help="the program on the nodes")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    if "://" not in options.plan:
        options.plan = os.path.abspath(options.plan)
    code, status, said = run([options.gguf, "commit", options.plan, "--status", "--json"])
    if code != DONE:
        print(said, file=sys.stderr)
        sys.exit(code)
    missing = json.loads(status)["missing"]
    if missing:
        local = {} if options.address else {"num_cpus": options.workers, "_node_ip_address": "127.0.0.1", "include_dashboard": False}
        ray.init(address=options.address, log_to_driver=False, **local)
        Queue(options, missing).run()
    code, written, said = run([options.gguf, "commit", options.plan])
    print(said, file=sys.stderr)
    print(written, end="")
    sys.exit(code)


if __name__ == "__main__":
    main()
