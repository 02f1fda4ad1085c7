"""When the pipeline runs, and under which Prefect settings; no work of its own.

A flow hands the compositions of ``watchkeeper.pipeline`` the steps wrapped as tasks. What is
concluded never depends on Prefect: the same slot gives the same runs, whoever starts them.
"""

from watchkeeper.tasks.surroundings import prepare

prepare()  # before anything here imports Prefect, which reads its settings once
