import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'

test('a proxy of the environment is not used for the embedded server', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'sluice-clickhouse-'))
  const script = `
    import { startClickHouse } from ${JSON.stringify(new URL('clickhouse.ts', import.meta.url).href)}
    const engine = await startClickHouse({ dir: ${JSON.stringify(dir)} })
    console.log('answers')
    await engine.stop()`
  // Nothing listens there.
  const proxy = 'http://127.0.0.1:9'
  const env = { PATH: process.env.PATH, HTTP_PROXY: proxy, http_proxy: proxy, NODE_USE_ENV_PROXY: '1' }
  try {
    const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { env, timeout: 30_000 })
    expect((await run).stdout.trim()).toBe('answers')
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
