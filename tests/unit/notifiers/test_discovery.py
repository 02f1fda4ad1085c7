from __future__ import annotations

import subprocess
import sys

from watchkeeper.notifiers import notifier_classes


def test_every_notifier_is_found_by_its_module_name() -> None:
    """One file is all that a new way to reach people needs."""
    found = notifier_classes()
    assert set(found) == {"console", "slack"}
    assert all(hasattr(one, "send") for one in found.values())


def test_a_report_does_not_load_a_vendors_client() -> None:
    """``watchkeeper diff`` starts without slack-sdk, numpy or Prefect."""
    code = (
        "import sys, watchkeeper.notifiers.report, watchkeeper.notifiers.message;"
        "heavy = {'slack_sdk', 'numpy', 'scipy', 'prefect', 'duckdb'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
