#!/bin/bash
# From a machine with DevStack's Keystone, MariaDB and nginx to a working endpoint. Run it as root in
# a clone of the repository, after "source openrc admin admin". It may be run again.
#
#     SERVICE_PASSWORD=... DATABASE_PASSWORD=... etc/devstack/local.sh
set -euo pipefail

: "${SERVICE_PASSWORD:?the password of the user placement in Keystone}"
: "${DATABASE_PASSWORD:?the password of root in MariaDB}"
: "${OS_AUTH_URL:?source openrc admin admin}"
HOST_IP=${HOST_IP:-127.0.0.1}
REGION=${OS_REGION_NAME:-RegionOne}
HOME_FOLDER=/opt/placement-core

# The program, and the user that it runs as.
id placement >/dev/null 2>&1 || useradd --system --home-dir /var/lib/placement placement
python3 -m venv "$HOME_FOLDER"
"$HOME_FOLDER/bin/pip" install --quiet '.[mysql]'
PATH=$HOME_FOLDER/bin:$PATH

# The database.
mysql --user=root --password="$DATABASE_PASSWORD" --execute="
    CREATE DATABASE IF NOT EXISTS placement_core CHARACTER SET utf8mb4;
    CREATE USER IF NOT EXISTS placement_core@localhost IDENTIFIED BY '$DATABASE_PASSWORD';
    GRANT ALL ON placement_core.* TO placement_core@localhost;"

# The user that validates tokens, and what clients find in the catalog.
openstack user create --or-show --domain Default --password "$SERVICE_PASSWORD" placement
openstack role add --user placement --user-domain Default \
    --project service --project-domain Default service
make_endpoint() {
    # Arguments: type, name, URL. A service that is there gets no second one.
    openstack service show "$1" >/dev/null 2>&1 || openstack service create --name "$2" "$1"
    if [ -z "$(openstack endpoint list --service "$1" --interface public --format value)" ]; then
        openstack endpoint create --region "$REGION" "$1" public "$3"
    fi
}
make_endpoint placement placement "http://$HOST_IP:8778"
make_endpoint reservation blazar "http://$HOST_IP:8778/v1"

# The configuration, which the service may read and others may not.
install --directory --owner=root --group=placement --mode=0750 /etc/placement
install --owner=root --group=placement --mode=0640 /dev/null /etc/placement/placement.conf
cat > /etc/placement/placement.conf <<END
[placement_database]
connection = mysql+pymysql://placement_core:$DATABASE_PASSWORD@localhost/placement_core

[api]
auth_strategy = keystone

[keystone_authtoken]
www_authenticate_uri = $OS_AUTH_URL
auth_type = password
auth_url = $OS_AUTH_URL
username = placement
password = $SERVICE_PASSWORD
project_name = service
user_domain_name = Default
project_domain_name = Default

[oslo_middleware]
enable_proxy_headers_parsing = true
END
placement-core config check

# The schema, the API, the manager of leases, and the proxy.
runuser --user placement -- "$HOME_FOLDER/bin/placement-core" db sync
install --mode=0644 etc/systemd/placement-core-api.service \
    etc/systemd/placement-core-manager.service /etc/systemd/system/
systemctl daemon-reload
systemctl enable placement-core-api placement-core-manager
systemctl restart placement-core-api placement-core-manager
install --mode=0644 etc/placement/nginx.conf.sample /etc/nginx/placement.conf
nginx -t -c /etc/nginx/placement.conf
nginx -s reload -c /etc/nginx/placement.conf 2>/dev/null || nginx -c /etc/nginx/placement.conf

# Does it work?
curl --fail --silent --show-error --retry 30 --retry-all-errors --retry-delay 1 \
    "http://$HOST_IP:8778/readiness"
openstack resource provider list
