import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'

const run = promisify(execFile)

test('a failed command ends the process with 1 although work goes on', async () => {
  const module = new URL('run-command.ts', import.meta.url).href
  const script = `
    import { runCommand } from ${JSON.stringify(module)}
    setInterval(() => undefined, 60_000)
    await runCommand(() => Promise.reject(new Error('the lock was lost')))`
  await expect(run(process.execPath, ['--input-type=module', '--eval', script])).rejects.toMatchObject({
    code: 1,
    stderr: 'the lock was lost\n',
  })
})

test('a failed command ends only when the reader of a pipe has taken what was printed', async () => {
  const module = new URL('run-command.ts', import.meta.url).href
  const script = `
    import { runCommand } from ${JSON.stringify(module)}
    await runCommand(() => {
      process.stdout.write('x'.repeat(1_000_000))
      return Promise.reject(new Error('the rest is missing'))
    })`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script])
  const exited = once(child, 'exit')
  await once(child.stderr, 'data')
  expect((await text(child.stdout)).length).toBe(1_000_000)
  expect(await exited).toEqual([1, null])
})

test('a command allows a second for the connection to each of several addresses', async () => {
  const module = new URL('run-command.ts', import.meta.url).href
  const script = `
    import { getDefaultAutoSelectFamilyAttemptTimeout } from 'node:net'
    import { runCommand } from ${JSON.stringify(module)}
    await runCommand(async () => console.log(getDefaultAutoSelectFamilyAttemptTimeout()))`
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script])
  expect(stdout).toBe('1000\n')
})
