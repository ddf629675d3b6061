import { execFile } from 'node:child_process'
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
