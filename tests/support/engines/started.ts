/** Engines that globalSetup leaves to globalTeardown: jest loads the two as separate modules, but in one process. */
export interface Started {
  /** Holds the engines' data; removed at the end. */
  folder: string
  engines: Stoppable[]
}

export interface Stoppable {
  stop(): Promise<void>
}

const key = Symbol.for('sluice.tests.engines')
const kept = globalThis as { [key]?: Started | undefined }

export function keepForStop(started: Started): void {
  kept[key] = started
}

export function takeForStop(): Started | undefined {
  const started = kept[key]
  kept[key] = undefined
  return started
}
