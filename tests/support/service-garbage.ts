import { setFlagsFromString } from 'node:v8'
import { afterAll, beforeAll } from '@jest/globals'

/**
 * A V8 flag that `npm test` sets: V8 collects garbage as the heap grows, and not also after every 64 MB of new buffers.
 */
const flag = 'external-memory-accounted-in-global-limit'

/**
 * Called at the top of a test file that measures the memory of its own process, so that V8 collects unused buffers as
 * early as it does in a service.
 */
export function collectGarbageAsServices(): void {
  beforeAll(() => {
    setFlagsFromString(`--no-${flag}`)
  })

  afterAll(() => {
    setFlagsFromString(`--${flag}`)
  })
}
