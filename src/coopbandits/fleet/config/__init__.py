"""The configuration of one agent: a TOML file, checked before anything is done."""

from coopbandits.fleet.config.bandits import BanditConfig, ClusterConfig, RewardScale
from coopbandits.fleet.config.model import ApiLimits, ApiTokens, DocumentConfig, NodeConfig
from coopbandits.fleet.config.read import ConfigError, parse_config, read_config, write_config
from coopbandits.fleet.identity.tls import TlsFiles

__all__ = [
    "ApiLimits",
    "ApiTokens",
    "BanditConfig",
    "ClusterConfig",
    "ConfigError",
    "DocumentConfig",
    "NodeConfig",
    "RewardScale",
    "TlsFiles",
    "parse_config",
    "read_config",
    "write_config",
]
