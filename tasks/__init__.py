"""The pipeline's steps as Prefect tasks: names, retries where they are safe, one effect a file."""

from watchkeeper.tasks.surroundings import prepare

prepare()  # before anything here imports Prefect, which reads its settings once
