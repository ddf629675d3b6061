import { rmSync } from 'node:fs'
import { takeForStop } from './started.ts'

/** jest's globalTeardown: stops what start.ts started and removes its data. */
export default async function stop(): Promise<void> {
  const started = takeForStop()
  if (!started) return
  await Promise.all(started.engines.map((engine) => engine.stop()))
  rmSync(started.folder, { recursive: true, force: true })
}
