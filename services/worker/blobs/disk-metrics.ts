import type { BlobStore } from '@sluice/blobs/blob-store'
import { Gauge, type Metrics, scrapeReader } from '@sluice/runtime/metrics'

/**
 * Adds the gauges of the disk of a `file:` store; they are absent for another store, and while the disk can't be read.
 */
export function addDiskMetrics(metrics: Metrics, blobs: Pick<BlobStore, 'disk'>): void {
  const gauges = [
    {
      name: 'sluice_blobs_disk_free_bytes',
      help: 'Bytes that are free on the disk of a file: store.',
      of: 'freeBytes',
    },
    { name: 'sluice_blobs_disk_size_bytes', help: 'Size of the disk of a file: store.', of: 'sizeBytes' },
  ] as const
  // /readyz tells why a disk can't be read.
  const readDisk = scrapeReader(() => blobs.disk().catch(() => undefined))
  for (const { name, help, of } of gauges) {
    new Gauge({
      name,
      help,
      registers: [metrics],
      async collect() {
        const disk = await readDisk()
        if (disk === undefined) this.remove()
        else this.set(disk[of])
      },
    })
  }
}
