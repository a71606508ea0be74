"""The saved view of MLflow's runs table: a row for each trial, with the figures people look for.

MLflow keeps a view that a person saves as a tag of the experiment, in words that only its front
end (3.17's bundle) defines; a link with ``viewStateShareKey`` opens it.
"""

from __future__ import annotations

import json

VIEW = "benchorch"
"""The view's key, and its name in MLflow's list of views."""
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"

_FIGURES = ("latency_ms/p50", "speedup_ratio/p50", "cost_usd_per_million_items/on_demand")
_COLUMNS = (
    # A run's name has its model and hardware; more columns would push the figures off the screen.
    *("attributes.`Run Name`", "params.`conversion`", "params.`workload.batch_size`"),
    *(f"metrics.`{name}`" for name in _FIGURES),
    *("tags.`verdict`", "tags.`speedup`", "tags.`outcome`"),
)
_SECTION = "benchorch-figures"
_CHART = {
    **{"type": "BAR", "metricSectionId": _SECTION, "runsCountToCompare": 20},
    **{"isGenerated": False, "deleted": False},
}
_STATE = {
    "searchFilter": "tags.role = 'trial'",
    # By its start MLflow would show each trial below its plan's run, folded away.
    "orderByKey": "attributes.`end_time`",
    "orderByAsc": False,
    "selectedColumns": _COLUMNS,
    "columnOrder": _COLUMNS,
    "runsHiddenMode": "FIRST_20_RUNS",
    "compareRunSections": [
        {"uuid": _SECTION, "name": "Figures", "display": True, "isReordered": False}
    ],
    "compareRunCharts": [
        {**_CHART, "uuid": f"benchorch-{name}", "metricKey": name, "displayName": name}
        for name in _FIGURES
    ],
    "isAccordionReordered": True,  # else the section follows those of all other metrics
}

SAVED_VIEW = json.dumps({"name": VIEW, "createdAt": 0, "updatedAt": 0, "state": json.dumps(_STATE)})
"""The tag's value; of no time, so that it is listed below the views that people save."""
