-- The login of the nodes, after roles.sql, with psql and by whoever may make
-- roles. Its password is the environment variable NODE_PASSWORD, and is set
-- anew each time.
\getenv password NODE_PASSWORD
SELECT 'CREATE ROLE node LOGIN IN ROLE notifier_node' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'node') \gexec
ALTER ROLE node PASSWORD :'password';
