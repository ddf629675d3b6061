"""The checks of deploy/check/helm.sh. Prints each failure, and ends with 1 if there is one."""

import json
import re
import shutil
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory

import kubernetes_validate
import yaml

helm, promtool = sys.argv[1:]
chart = Path("deploy/helm/sluice")
variables_of = json.loads((chart / "files/variables.json").read_text())
names = ["gateway", "writer", "query", "worker"]
# The oldest version that Chart.yaml permits, and the newest whose schema is there.
kubernetes_versions = ["1.30.0", "1.37.0"]
# kubernetes-validate has no schemas of custom resources.
custom_kinds = {"ServiceMonitor", "ScaledObject"}
failures = []
checks = 0


def check(condition, message):
    global checks
    checks += 1
    if not condition:
        failures.append(message)


def run(*arguments):
    return subprocess.run([helm, *arguments], capture_output=True, text=True)


def template(*arguments):
    return run("template", "sluice", str(chart), "--namespace", "analytics", *arguments)


class Rendered:
    """The manifests of one set of values."""

    def __init__(self, name, arguments, values):
        self.name = name
        result = template(*arguments)
        if result.returncode != 0:
            sys.exit(f"{name}: helm template fails: {result.stderr}")
        self.manifests = [each for each in yaml.safe_load_all(result.stdout) if each]
        self.values = values

    def all(self, kind):
        return [each for each in self.manifests if each["kind"] == kind]

    def get(self, kind, name):
        found = [each for each in self.all(kind) if each["metadata"]["name"] == name]
        check(len(found) == 1, f"{self.name}: {len(found)} {kind} are named {name}")
        return found[0] if found else None


def merged(base, over):
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return {**base, **{key: merged(base.get(key), value) for key, value in over.items()}}


def matches(selector, labels):
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def check_schemas(rendered):
    for manifest in rendered.manifests:
        if manifest["kind"] in custom_kinds:
            continue
        for version in kubernetes_versions:
            where = f"{rendered.name}: {manifest['kind']} {manifest['metadata']['name']}, Kubernetes {version}"
            try:
                kubernetes_validate.validate(manifest, version, strict=True)
                check(True, where)
            except kubernetes_validate.ValidationError as error:
                check(False, f"{where}: {error}")


def check_container(where, process, pod, values):
    (container,) = pod["containers"]
    variables = variables_of[process]
    check(container["args"] == [process] and "command" not in container, f"{where}: the image starts something else")
    given = {each["name"]: each for each in container["env"]}
    check(len(given) == len(container["env"]), f"{where}: a variable is given twice")
    for entry in values["extraEnv"]:
        check(given.pop(entry["name"], None) == entry, f"{where}: {entry['name']} is not that of extraEnv")
    for name, entry in given.items():
        check(name in variables, f"{where}: {name} is no variable of {process}")
        if variables.get(name, {}).get("secret"):
            reference = entry.get("valueFrom", {}).get("secretKeyRef", {})
            check(
                "value" not in entry and reference.get("name") == values["secretName"] and reference.get("key") == name,
                f"{where}: {name} must come from the Secret",
            )
            check(reference.get("optional", False) != variables[name]["required"], f"{where}: {name} is optional or not")
    for name, variable in variables.items():
        check(name in given or not variable["required"], f"{where}: {name} is required and not given")
        check(name in given or not variable["secret"], f"{where}: {name} can't be given by the Secret")
        if name in values["settings"]:
            text = values["settings"][name]
            text = str(text).lower() if isinstance(text, bool) else str(text)
            check(given.get(name, {}).get("value") == text, f"{where}: {name} is not that of settings")
    # Kubernetes would set SLUICE_PORT=tcp://… for a Service of the name sluice.
    check(pod["enableServiceLinks"] is False, f"{where}: enableServiceLinks must be false")
    check(pod["automountServiceAccountToken"] is False, f"{where}: a token of the API of Kubernetes is mounted")
    security = pod["securityContext"]
    user = values["podSecurity"]["user"]
    identity = {} if user is None else {"runAsUser": user, "runAsGroup": user, "fsGroup": user}
    runs_as = {key: value for key, value in security.items() if key in ("runAsUser", "runAsGroup", "fsGroup")}
    check(security["runAsNonRoot"] is True and runs_as == identity, f"{where}: runs as {runs_as}")
    check(security["seccompProfile"] == {"type": "RuntimeDefault"}, f"{where}: has no seccomp profile")
    check(
        container["securityContext"]
        == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        f"{where}: the container may more than it needs",
    )
    check("memory" in container["resources"]["limits"], f"{where}: the container has no limit of memory")
    mounts = {each["name"] for each in container["volumeMounts"]}
    check(mounts == {each["name"] for each in pod["volumes"]}, f"{where}: volumes and their mounts differ")
    expected = {"tmp"}
    if values["certificatesSecretName"]:
        expected.add("certificates")
    if values["blobsClaimName"] and process in ("query", "worker"):
        expected.add("blobs")
    check(mounts == expected, f"{where}: mounts {mounts}")


def check_deployment(rendered, name):
    deployment = rendered.get("Deployment", f"sluice-{name}")
    if deployment is None:
        return
    where = f"{rendered.name}: {name}"
    values = rendered.values[name]
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    check_container(where, name, pod, rendered.values)
    scheme = "HTTPS" if rendered.values["settings"].get("SLUICE_TLS_CERT") else "HTTP"
    alive = {"path": "/healthz", "port": "metrics"}
    ready = {"path": "/readyz", "port": "http", "scheme": scheme}
    for probe, expected in [("liveness", alive), ("startup", alive), ("readiness", ready)]:
        check(container[f"{probe}Probe"]["httpGet"] == expected, f"{where}: {probe}")
    pre_stop = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    check((pre_stop >= 5) == (name in ("gateway", "query")), f"{where}: preStop sleeps for {pre_stop} s")
    given = {each["name"]: each.get("value") for each in container["env"]}
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    check(ports == {"http": 8080, "metrics": 9080} and given["SLUICE_PORT"] == "8080", f"{where}: ports {ports}")
    default = {key: variable.get("default") for key, variable in variables_of[name].items()}
    seconds = {key: int(given.get(key) or default.get(key) or 0) for key in ("SLUICE_DRAIN_SECONDS", "SLUICE_STOP_SECONDS")}
    stop = seconds["SLUICE_STOP_SECONDS"] or max(10, seconds["SLUICE_DRAIN_SECONDS"] + 6)
    check(pod["terminationGracePeriodSeconds"] >= pre_stop + stop + 5, f"{where}: is killed before it has stopped")

    roll = {"maxSurge": 0, "maxUnavailable": 1} if name == "writer" else {"maxSurge": 1, "maxUnavailable": 0}
    check(spec["strategy"]["rollingUpdate"] == roll, f"{where}: strategy {spec['strategy']}")
    spread = {each["topologyKey"]: each for each in pod["topologySpreadConstraints"]}
    labels = spec["template"]["metadata"]["labels"]
    zone = spread["topology.kubernetes.io/zone"]
    check(matches(zone["labelSelector"], labels) and zone["maxSkew"] == 1, f"{where}: is not spread by zone")
    check(matches(spec["selector"], labels), f"{where}: the Deployment does not select its pods")

    budget = rendered.get("PodDisruptionBudget", f"sluice-{name}")
    check(budget and matches(budget["spec"]["selector"], labels), f"{where}: the budget does not select the pods")

    scaled = values["autoscaling"]["enabled"]
    check(("replicas" in spec) != scaled, f"{where}: replicas and an autoscaler at once, or neither")
    kind = "HorizontalPodAutoscaler" if name in ("gateway", "query") else "ScaledObject"
    scalers = [each for each in rendered.all(kind) if each["spec"]["scaleTargetRef"]["name"] == f"sluice-{name}"]
    check(len(scalers) == scaled, f"{where}: {len(scalers)} {kind}")
    for scaler in scalers:
        least, most = ("minReplicas", "maxReplicas") if kind[0] == "H" else ("minReplicaCount", "maxReplicaCount")
        check(
            (scaler["spec"][least], scaler["spec"][most]) == (values["replicas"], values["autoscaling"]["maxReplicas"]),
            f"{where}: the autoscaler has other limits",
        )
        if kind[0] == "H":
            (metric,) = scaler["spec"]["metrics"]
            target = {"type": "AverageValue", "averageValue": values["autoscaling"]["targetCPU"]}
            check(metric["resource"] == {"name": "cpu", "target": target}, f"{where}: the autoscaler has another target")


def networks_of(rendered, name):
    """The networks of a setting."""
    return [ip_network(text.strip()) for text in str(rendered.values["settings"].get(name, "")).split(",") if text.strip()]


def check_network(rendered):
    policies = rendered.all("NetworkPolicy")
    if not rendered.values["networkPolicy"]["enabled"]:
        check(policies == [], f"{rendered.name}: has policies although they are off")
        return
    deny = rendered.get("NetworkPolicy", "sluice-default-deny")
    if deny is None:
        return
    deny = deny["spec"]
    check(deny["policyTypes"] == ["Ingress", "Egress"], f"{rendered.name}: default deny leaves a direction open")
    check("ingress" not in deny and "egress" not in deny, f"{rendered.name}: default deny allows something")
    for pod in [each["spec"]["template"] for each in rendered.all("Deployment") + rendered.all("Job")]:
        check(matches(deny["podSelector"], pod["metadata"]["labels"]), f"{rendered.name}: default deny misses a pod")

    engines = {name: set(engine["ports"]) for name, engine in rendered.values["networkPolicy"]["engines"].items()}
    needed = {
        "SLUICE_LOG_URL": "kafka",
        "SLUICE_CLICKHOUSE_URL": "clickhouse",
        "SLUICE_POSTGRES_URL": "postgres",
        "SLUICE_REDIS_URL": "redis",
        "SLUICE_BLOBS_URL": "blobs",
    }
    for process in [*names, "migrate"]:
        policy = rendered.get("NetworkPolicy", f"sluice-{process}")
        if policy is None:
            continue
        spec = policy["spec"]
        where = f"{rendered.name}: policy of {process}"
        check(spec["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == process, f"{where} selects others")
        open_ports = {port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]}
        served = {"gateway": {"http", "metrics"}, "query": {"http", "metrics"}, "migrate": set()}
        check(open_ports == served.get(process, {"metrics"}), f"{where} opens {open_ports}")
        ports = {port["port"] for rule in spec["egress"] for port in rule.get("ports", [])}
        expected = set(rendered.values["networkPolicy"]["dnsPorts"])
        for rule in rendered.values["networkPolicy"]["extraEgress"]:
            expected |= {port["port"] for port in rule["ports"]}
        for variable, engine in needed.items():
            if variable in variables_of[process]:
                expected |= engines[engine]
        if process == "worker":
            expected |= engines["smtp"]
        check(ports == expected, f"{where} lets out to {sorted(ports)}, and needs {sorted(expected)}")
        everywhere = [rule for rule in spec["egress"] if "ports" not in rule]
        check(len(everywhere) == (process == "worker"), f"{where} lets out to every port")
        for rule in everywhere:
            blocks = [peer["ipBlock"] for peer in rule["to"]]
            # Kubernetes takes no address without a prefix length.
            check(all("/" in block["cidr"] for block in blocks), f"{where} has a network without a prefix length")
            allowed = networks_of(rendered, "SLUICE_WEBHOOK_ALLOWED_NETWORKS")
            refused = networks_of(rendered, "SLUICE_WEBHOOK_REFUSED_NETWORKS")
            for block in blocks:
                # Kubernetes takes only exceptions within the network, and not all of it.
                network, exceptions = ip_network(block["cidr"]), map(ip_network, block.get("except", []))
                outside = [no for no in exceptions if no == network or no.version != network.version or not no.subnet_of(network)]
                check(not outside, f"{where} excepts {outside} from {network}")
            private = ["10.0.0.1", "172.20.0.1", "192.168.0.1", "169.254.169.254", "127.0.0.1", "fd00::1", "fe80::1"]
            public = ["203.1.2.3", "203.1.3.3", "2600:1f14:1:0:9::1", "2600:1f14:1:100::1", "2001:678::9", "2001:678::8"]
            for address in private + public:
                one = ip_network(address)
                reached = any(
                    one.version == ip_network(block["cidr"]).version
                    and one.subnet_of(ip_network(block["cidr"]))
                    and not any(one.subnet_of(ip_network(no)) for no in block.get("except", []))
                    for block in blocks
                )
                is_in = lambda networks: any(one.version == each.version and one.subnet_of(each) for each in networks)
                is_allowed = is_in(allowed) or (address in public and not is_in(refused))
                check(reached == is_allowed, f"{where}: webhooks reach {address}: {reached}")


def check_ingress(rendered):
    ingresses = rendered.all("Ingress")
    check(len(ingresses) == rendered.values["ingress"]["enabled"], f"{rendered.name}: {len(ingresses)} Ingress")
    for ingress in ingresses:
        (rule,) = ingress["spec"]["rules"]
        paths = {
            each["path"]: (each["pathType"], each["backend"]["service"]["name"]) for each in rule["http"]["paths"]
        }
        check(
            paths
            == {
                "/collect": ("Prefix", "sluice-gateway"),
                "/v1": ("Prefix", "sluice-gateway"),
                "/": ("Prefix", "sluice-query"),
            },
            f"{rendered.name}: routes {paths}",
        )
        for _, service in paths.values():
            rendered.get("Service", service)


def check_custom(rendered):
    monitors = rendered.all("ServiceMonitor")
    enabled = rendered.values["serviceMonitor"]["enabled"]
    check(len(monitors) == (4 if enabled else 0), f"{rendered.name}: {len(monitors)} ServiceMonitors")
    for monitor in monitors:
        found = [
            each
            for each in rendered.all("Service")
            if matches(monitor["spec"]["selector"], each["metadata"]["labels"])
            and monitor["spec"]["endpoints"][0]["port"] in [port["name"] for port in each["spec"]["ports"]]
        ]
        check(len(found) == 1, f"{rendered.name}: {monitor['metadata']['name']} selects {len(found)} Services")
    for scaler in rendered.all("ScaledObject"):
        (trigger,) = scaler["spec"]["triggers"]
        name = scaler["spec"]["scaleTargetRef"]["name"]
        check(f'service="{name}-metrics"' in trigger["metadata"]["query"], f"{rendered.name}: {name} asks for others")
        rendered.get("Service", f"{name}-metrics")
        check_scaling(rendered, name, trigger["metadata"])


def check_scaling(rendered, name, trigger):
    """What the query of a ScaledObject asks for: one pod more, the same number, or one fewer."""
    threshold = int(trigger["threshold"])
    waiting = "sluice_writer_freshness_seconds" if name.endswith("writer") else "sluice_worker_oldest_due_seconds"
    labels = f'namespace="analytics", service="{name}-metrics"'
    # Seconds for which the oldest event or job waits, and CPU of a pod in percent.
    cases = [(0, 1, "fewer"), (0, 40, "same"), (0, 90, "same"), (300, 90, "more")]
    # Writers without work wait for ClickHouse while events wait; jobs that wait need a worker in any case.
    cases += [(300, 1, "same" if name.endswith("writer") else "more")]
    tests = []
    for seconds, percent, wanted in cases:
        value = {"fewer": 0, "same": threshold, "more": seconds}[wanted]
        series = {waiting: f"{seconds}x10", "process_cpu_seconds_total": f"0+{percent * 0.6}x10"}
        tests.append({
            "interval": "1m",
            "input_series": [{"series": f"{key}{{{labels}}}", "values": values} for key, values in series.items()],
            "promql_expr_test": [
                {"expr": trigger["query"], "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": value}]}
            ],
        })
    with TemporaryDirectory() as folder:
        file = Path(folder) / "scaling.test.yaml"
        file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": tests}))
        result = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True)
    check(result.returncode == 0, f"{rendered.name}: the query of {name}: {result.stderr}")


def check_all(rendered):
    check(rendered.all("Secret") == [], f"{rendered.name}: renders a Secret")
    check_schemas(rendered)
    for name in names:
        check_deployment(rendered, name)
    for service in rendered.all("Service"):
        pods = [each["spec"]["template"]["metadata"]["labels"] for each in rendered.all("Deployment")]
        selector = {"matchLabels": service["spec"]["selector"]}
        check(sum(matches(selector, labels) for labels in pods) == 1, f"{rendered.name}: {service['metadata']['name']} selects no pods")
        # Kubernetes refuses it for a ClusterIP.
        policy = rendered.values.get(service["metadata"]["labels"]["app.kubernetes.io/component"], {}).get("service", {})
        wanted = policy.get("externalTrafficPolicy") if service["spec"].get("type") in ("LoadBalancer", "NodePort") else None
        check(service["spec"].get("externalTrafficPolicy") == (wanted or None), f"{rendered.name}: externalTrafficPolicy")
        if policy:
            ports = [{"name": "http", "port": policy["port"], "targetPort": "http"}]
            check(service["spec"]["ports"] == ports, f"{rendered.name}: ports {service['spec']['ports']}")
    jobs = rendered.all("Job")
    check(len(jobs) == rendered.values["migrate"]["enabled"], f"{rendered.name}: {len(jobs)} Jobs")
    for job in jobs:
        check(job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade", f"{rendered.name}: no hook")
        check_container(f"{rendered.name}: migrate", "migrate", job["spec"]["template"]["spec"], rendered.values)
        metadata = job["spec"]["template"]["metadata"]
        for found, key in ((metadata["labels"], "podLabels"), (metadata.get("annotations", {}), "podAnnotations")):
            wanted = rendered.values[key] | rendered.values["migrate"][key]
            check(wanted.items() <= found.items(), f"{rendered.name}: migrate has the {key} {found}")
        # At the first installation, the objects of the release are not there yet.
        check("serviceAccountName" not in job["spec"]["template"]["spec"], f"{rendered.name}: migrate has a ServiceAccount")
    check_network(rendered)
    check_ingress(rendered)
    check_custom(rendered)


def check_defaults(rendered):
    """The defaults request about one processor and 2 GiB; gateway and query are scaled by 65 % of the core that each can use."""
    for name in ("gateway", "query"):
        check(rendered.values[name]["autoscaling"]["targetCPU"] == "650m", f"{name}: is scaled at another use of its core")
    millicores = mebibytes = 0
    for name in names:
        requests = rendered.values[name]["resources"]["requests"]
        millicores += rendered.values[name]["replicas"] * int(requests["cpu"].removesuffix("m"))
        mebibytes += rendered.values[name]["replicas"] * int(requests["memory"].removesuffix("Mi"))
    check(millicores <= 1000 and mebibytes <= 2048, f"the defaults request {millicores} m and {mebibytes} MiB")


def check_refusals():
    scaled_writer = ["writer.autoscaling.enabled=true"]
    prometheus = ["keda.prometheusAddress=http://prometheus:9090"]
    refusals = [
        (["image.tag=v1", f"image.digest=sha256:{'0' * 64}"], "image.tag and image.digest are both set"),
        (["settings.SLUICE_PORT=9000"], "settings.SLUICE_PORT can't be set"),
        (["settings.SLUICE_LOGLEVEL=warn"], "settings.SLUICE_LOGLEVEL is no variable of a service"),
        (["settings.SLUICE_POSTGRES_URL=postgres://a:b@c/d"], "make it a key of the Secret sluice (secretName)"),
        (["gateway.replicas=8"], "gateway.autoscaling.maxReplicas (6) is less than gateway.replicas (8)"),
        (["query.replicas=8"], "query.autoscaling.maxReplicas (6) is less than query.replicas (8)"),
        ([*scaled_writer, "serviceMonitor.enabled=true"], "set keda.prometheusAddress"),
        ([*scaled_writer, *prometheus], "set serviceMonitor.enabled=true"),
        (["worker.autoscaling.enabled=true"], "worker.autoscaling asks Prometheus through KEDA"),
        (
            [*scaled_writer, *prometheus, "serviceMonitor.enabled=true", "writer.replicas=5"],
            "writer.autoscaling.maxReplicas (4) is less than writer.replicas (5)",
        ),
        (["query.terminationGracePeriodSeconds=50"], "query.terminationGracePeriodSeconds (50) must be at least 55"),
        (["gateway.preStopSeconds=50"], "gateway.terminationGracePeriodSeconds (60) must be at least 65"),
        (["settings.SLUICE_STOP_SECONDS=60"], "query.terminationGracePeriodSeconds (60) must be at least 75"),
        (["settings.SLUICE_DRAIN_SECONDS=40"], "settings.SLUICE_STOP_SECONDS (40) must be at least 46"),
        (["settings.SLUICE_TLS_CERT=/c.pem"], "settings.SLUICE_TLS_CERT is set alone"),
        (["ingress.enabled=true"], "ingress.enabled needs ingress.host"),
        (["ingress.host=sluice.example.com"], "set ingress.enabled=true, or remove them"),
        # What the schema refuses.
        (["secretName="], "/secretName"),
        (["gatway.replicas=2"], "gatway"),
        (["gateway.replica=2"], "replica"),
        (["gateway.replicas=0"], "/gateway/replicas"),
        (["gateway.replicas=two"], "/gateway/replicas"),
        (["gateway.autoscaling.targetCPU=65%"], "/gateway/autoscaling/targetCPU"),
        (["query.autoscaling.targetCPU=0"], "/query/autoscaling/targetCPU"),
        (["settings.LOG_LEVEL=warn"], "LOG_LEVEL"),
        (["settings.OTEL_LOG_LEVEL=debug"], "settings.OTEL_LOG_LEVEL is no variable of a service"),
        (["extraEnv[0].name=SLUICE_POSTGRES_URL"], "extraEnv has SLUICE_POSTGRES_URL: variables that Sluice reads"),
        (["extraEnv[0].name=OTEL_SERVICE_NAME"], "extraEnv has OTEL_SERVICE_NAME: variables that Sluice reads"),
        (["extraEnv[0].name=A,extraEnv[1].name=A"], "extraEnv has A twice"),
        (["image.digest=sha256:12"], "/image/digest"),
        (["podSecurity.user=0"], "/podSecurity/user"),
        (["topologySpread.whenUnsatisfiable=Never"], "/topologySpread/whenUnsatisfiable"),
        (["writer.service.type=LoadBalancer"], "service"),
        (["gateway.service.port=0"], "/gateway/service/port"),
        (["networkPolicy.engines.mysql.ports={3306}"], "mysql"),
    ]
    for values, sentence in refusals:
        result = template(*[word for value in values for word in ("--set", value)])
        what = f"--set {','.join(values)}"
        check(result.returncode != 0, f"{what} is not refused")
        check(result.stdout.strip() == "", f"{what} renders something")
        check(sentence in result.stderr, f"{what}: the reason should have “{sentence}”:\n{result.stderr}")
    # All mistakes are told at once.
    result = template("--set", "ingress.enabled=true,gateway.replicas=8")
    check("2 mistakes" in result.stderr, f"two mistakes are told one by one: {result.stderr}")


def check_notes(rendered, arguments):
    """NOTES.txt is printed by an installation only: a copy of the chart renders it into a ConfigMap."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "sluice"
        shutil.copytree(chart, copy)
        (copy / "templates/notes.yaml").write_text(
            "kind: ConfigMap\ndata:\n  notes: {{ include (print .Template.BasePath \"/NOTES.txt\") . | quote }}\n"
        )
        result = run("template", "sluice", str(copy), "--namespace", "analytics", "--show-only", "templates/notes.yaml", *arguments)
    if result.returncode != 0:
        check(False, f"{rendered.name}: NOTES.txt: {result.stderr}")
        return
    notes = yaml.safe_load(result.stdout)["data"]["notes"]
    check("--namespace analytics" in notes, f"{rendered.name}: the commands of NOTES.txt miss the namespace")
    for kind, name in re.findall(r"\b(job|service|deployment)/([\w-]+)", notes):
        rendered.get(kind.capitalize(), name)
    for name, port in re.findall(r"port-forward service/sluice-(\w+) \d+:(\d+)", notes):
        check(int(port) == rendered.values[name]["service"]["port"], f"{rendered.name}: NOTES.txt forwards to port {port} of {name}")
    host = rendered.values["ingress"]["host"]
    scheme = "https" if rendered.values["ingress"]["tlsSecretName"] else "http"
    check(not host or f"{scheme}://{host}/collect" in notes, f"{rendered.name}: NOTES.txt does not say where to send events")
    # The pods themselves, through a forwarded port.
    scheme = "https" if rendered.values["settings"].get("SLUICE_TLS_CERT") else "http"
    local = set(re.findall(r"(\w+)://localhost", notes))
    check(local == {scheme}, f"{rendered.name}: NOTES.txt speaks {local} to pods that speak {scheme}")
    flags = [line.split("://localhost")[0] for line in notes.splitlines() if "curl" in line and "://localhost" in line]
    check(scheme == "http" or all(" -k " in flag for flag in flags), f"{rendered.name}: NOTES.txt: curl refuses the certificate")
    is_closed = not host and all(rendered.values[name]["service"]["type"] == "ClusterIP" for name in ("gateway", "query"))
    check(("from outside" in notes) == is_closed, f"{rendered.name}: NOTES.txt on what can be reached from outside")
    is_open = not host and not is_closed
    check(("get service" in notes) == is_open, f"{rendered.name}: NOTES.txt on the addresses of the Services")


def check_lint(arguments, name):
    result = run("lint", "--strict", str(chart), *arguments)
    check(result.returncode == 0, f"{name}: helm lint --strict: {result.stdout}{result.stderr}")


def main():
    defaults = yaml.safe_load((chart / "values.yaml").read_text())
    sets = {"defaults": ([], defaults)}
    for file in sorted((chart / "ci").glob("*-values.yaml")):
        values = merged(defaults, yaml.safe_load(file.read_text()))
        sets[file.name] = (["--values", str(file)], values)
    for name, (arguments, values) in sets.items():
        check_lint(arguments, name)
        rendered = Rendered(name, arguments, values)
        check_all(rendered)
        check_notes(rendered, arguments)
        if name == "defaults":
            check_defaults(rendered)
    check_refusals()
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"Helm chart: {checks} checks of {len(sets)} sets of values, {len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
