"""Configurations of groups, set through the Admin API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource


def set_group_configs(servers: str, groups: Iterable[str], values: Mapping[str, int]) -> None:
    """Sets the same values for all these groups."""
    entries = [
        ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resources = [
        ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries) for group in groups
    ]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for result in admin.incremental_alter_configs(resources).values():
        result.result(30)
