"""``pyconsumer topics``."""

from __future__ import annotations

import click

from pyconsumer.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from pyconsumer.cli.options import (
    as_json,
    client_options,
    connected,
    console,
    json_option,
    key_values,
    print_table,
    table,
)
from pyconsumer.errors import KafkaError

__all__ = ["command"]


@click.group(help="List, create, describe, alter and delete topics.")
def command() -> None:
    pass


@command.command("list")
@connected
@json_option
@click.option("--internal", is_flag=True, help="Include Kafka's own topics.")
def list_topics(servers: str, settings: dict[str, str], timeout_ms: int, json_output: bool, internal: bool) -> None:
    """List the names of all topics."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        topics = admin.describe_topics(timeout_ms=timeout_ms)
    for topic in topics:
        if topic.is_internal and not internal:
            continue
        if json_output:
            click.echo(as_json({"topic": topic.name, "partitions": len(topic.partitions), "id": topic.topic_id}))
        else:
            click.echo(topic.name)


@command.command("create")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@connected
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1, 0x7FFFFFFF),
    help="Number of partitions.  [default: num.partitions of the broker]",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1, 0x7FFF),
    help="Number of replicas of each partition.  [default: default.replication.factor of the broker]",
)
@click.option(
    "-t",
    "--topic-config",
    metavar="KEY=VALUE",
    multiple=True,
    callback=key_values,
    help="A setting of the topic, such as cleanup.policy=compact; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="Do not fail if a topic already exists.")
def create(
    names: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    partitions: int | None,
    replication_factor: int | None,
    topic_config: dict[str, str],
    if_not_exists: bool,
) -> None:
    """Create topics."""
    wanted = [NewTopic(name, partitions or -1, replication_factor or -1, topic_configs=topic_config) for name in names]
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        result = admin.create_topics(wanted, raise_errors=False, timeout_ms=timeout_ms)
    failed = False
    for name in names:
        error = result.get(name)
        if error is None:
            click.echo(f"created {name}")
        elif if_not_exists and getattr(error, "code_name", "") == "TOPIC_ALREADY_EXISTS":
            click.echo(f"{name} already exists")
        else:
            failed = True
            click.echo(f"Error: {name}: {error}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


@command.command("delete")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@connected
def delete(names: tuple[str, ...], servers: str, settings: dict[str, str], timeout_ms: int) -> None:
    """Delete topics with all their records."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        result = admin.delete_topics(names, raise_errors=False, timeout_ms=timeout_ms)
    for name, error in result.items():
        click.echo(f"deleted {name}" if error is None else f"Error: {name}: {error}", err=error is not None)
    if any(result.values()):
        raise click.exceptions.Exit(1)


@command.command("describe")
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@connected
@json_option
def describe(
    names: tuple[str, ...], servers: str, settings: dict[str, str], timeout_ms: int, json_output: bool
) -> None:
    """Show partitions, leaders, replicas and settings of topics, by default of all."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        topics = [
            topic
            for topic in admin.describe_topics(names or None, timeout_ms=timeout_ms)
            if names or not topic.is_internal
        ]
        resources = {topic.name: ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics}
        configs = admin.describe_configs(resources.values(), timeout_ms=timeout_ms)
    out = console(markup=False)
    for topic in topics:
        changed = {
            name: entry.value
            for name, entry in sorted(configs[resources[topic.name]].items())
            if entry.source == 1  # set on the topic itself
        }
        if json_output:
            click.echo(
                as_json(
                    {
                        "topic": topic.name,
                        "id": topic.topic_id,
                        "internal": topic.is_internal,
                        "config": changed,
                        "partitions": [
                            {
                                "partition": item.partition,
                                "leader": item.leader,
                                "leader_epoch": item.leader_epoch,
                                "replicas": item.replicas,
                                "isr": item.isr,
                            }
                            for item in topic.partitions
                        ],
                    }
                )
            )
            continue
        set_here = ", ".join(f"{name}={value}" for name, value in changed.items())
        headings = ("partition", "leader", "epoch", "replicas", "in sync")
        partitions = table(*headings, right=headings)
        out.print(f"{topic.name}  (id {topic.topic_id}{'; ' + set_here if set_here else ''})")
        for item in topic.partitions:
            partitions.add_row(
                str(item.partition),
                "none" if item.leader < 0 else str(item.leader),
                str(item.leader_epoch),
                ",".join(map(str, item.replicas)),
                ",".join(map(str, item.isr)),
            )
        print_table(out, partitions)


@command.command("alter")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@connected
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1, 0x7FFFFFFF),
    help="Increase the number of partitions to this; it cannot be decreased.",
)
@click.option(
    "-t",
    "--topic-config",
    metavar="KEY=VALUE",
    multiple=True,
    callback=key_values,
    help="Change a setting of the topics, such as retention.ms=86400000; may be repeated.",
)
@click.option("--unset", metavar="KEY", multiple=True, help="Reset a setting to its default; may be repeated.")
def alter(
    names: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    partitions: int | None,
    topic_config: dict[str, str],
    unset: tuple[str, ...],
) -> None:
    """Change settings of topics, or add partitions.

    Other settings are not changed. With more partitions, records of a key may go to another partition than before.
    """
    changes: dict[str, str | None] = {**topic_config, **dict.fromkeys(unset)}
    if partitions is None and not changes:
        raise click.UsageError("no change requested: --partitions, --topic-config or --unset is required")
    both = sorted(topic_config.keys() & set(unset))
    if both:
        raise click.UsageError(f"{both[0]} is given by --topic-config and by --unset")
    failed = False
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        for name in names:
            try:
                if changes:
                    admin.alter_configs(
                        {ConfigResource(ConfigResourceType.TOPIC, name): changes}, timeout_ms=timeout_ms
                    )
                if partitions is not None:
                    admin.create_partitions({name: partitions}, timeout_ms=timeout_ms)
            except KafkaError as error:
                failed = True
                click.echo(f"Error: {name}: {error}", err=True)
            else:
                click.echo(f"altered {name}")
    if failed:
        raise click.exceptions.Exit(1)
