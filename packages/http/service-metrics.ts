import type { Readiness } from '@sluice/runtime/health'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { thisBuild } from '@sluice/runtime/schema-versions'
import manifest from './package.json' with { type: 'json' }
import type { TlsCertificate } from './tls.ts'

/**
 * Registers the metrics that every service has: its build, whether it is ready, which engines answer, and with TLS of
 * its own, when the certificate expires. `read` is called at each scrape; probes and scrapes share the requests to the
 * engines.
 */
export function addServiceMetrics(
  metrics: Metrics,
  {
    engines,
    read,
    certificate,
  }: {
    engines: readonly string[]
    read: () => Promise<Readiness>
    certificate: Pick<TlsCertificate, 'notAfter'> | undefined
  },
): void {
  const registers = [metrics]
  new Gauge({
    name: 'sluice_build_info',
    help: 'Always 1; the labels name the release and the number of the build, by which schemas are compared.',
    labelNames: ['version', 'schema'],
    registers,
  }).set({ version: manifest.version, schema: String(thisBuild) }, 1)
  new Gauge({
    name: 'sluice_ready',
    help: 'Whether the service is ready, as /readyz says: 1 or 0.',
    registers,
    async collect() {
      const { missing } = await read()
      this.set(Object.keys(missing).length === 0 ? 1 : 0)
    },
  })
  new Gauge({
    name: 'sluice_engine_up',
    help: 'Whether an engine of the service answers: 1 or 0.',
    labelNames: ['engine'],
    registers,
    async collect() {
      const { missing, degraded } = await read()
      for (const engine of engines) this.set({ engine }, engine in missing || engine in degraded ? 0 : 1)
    },
  })
  if (certificate === undefined) return
  new Gauge({
    name: 'sluice_tls_certificate_not_after_seconds',
    help: 'When the certificate of SLUICE_TLS_CERT expires, in Unix seconds.',
    registers,
    collect() {
      this.set(certificate.notAfter().getTime() / 1_000)
    },
  })
}
