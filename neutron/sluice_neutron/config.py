"""Options in the agent's own file."""

from oslo_config import cfg

OPTIONS = [
    cfg.StrOpt("socket", default="/run/sluice/sluice.sock", help="The socket of Sluice's daemon."),
    cfg.IntOpt("refresh", default=60, min=1, help="Seconds after which QoS policies are read again, in case that a change was lost."),
]


def read():
    """Return the section [sluice]."""
    cfg.CONF.register_opts(OPTIONS, "sluice")
    return cfg.CONF.sluice
