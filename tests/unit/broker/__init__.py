"""The broker's log, controller and rules, without sockets."""
