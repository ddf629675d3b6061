// Runs the README's shell blocks, in order, against a running Sluice, with SLUICE_KEY from the environment. A JSON
// block is the answer of the command before it: its data.value and data.breakdown must come within 5 s. Standard input
// is the key, which "sluice login" reads, and what it saves goes to a folder that is removed.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'

interface Answer {
  success: boolean
  data?: { value?: number; breakdown?: unknown }
}

/** Commands that are not run: Sluice runs already, the tests run elsewhere, and SLUICE_KEY is set. */
const skipped = [/^npm start$/, /^npm test$/, /^export SLUICE_KEY=/]

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
const blocks = [...readme.matchAll(/^```(sh|json)\n(.*?)^```$/gms)].map(([, kind = '', text = '']) => ({
  kind,
  text: text.trim(),
}))

const configFolder = mkdtempSync(join(tmpdir(), 'sluice-readme-'))
process.on('exit', () => {
  rmSync(configFolder, { recursive: true, force: true })
})

let ran = 0
for (const [index, { kind, text: command }] of blocks.entries()) {
  if (kind !== 'sh' || skipped.some((pattern) => pattern.test(command))) continue
  const shown = blocks[index + 1]
  if (shown?.kind === 'json') await expectAnswer(command, JSON.parse(shown.text) as Answer)
  else console.log(run(command))
  ran++
}
if (ran < 4) throw new Error(`only ${ran} commands were found in the README`)
console.log(`The README's ${ran} commands do what it says.`)

function run(command: string): string {
  return execFileSync('bash', ['-e', '-c', command], {
    encoding: 'utf8',
    input: `${process.env.SLUICE_KEY ?? ''}\n`,
    env: { ...process.env, XDG_CONFIG_HOME: configFolder },
  })
}

async function expectAnswer(command: string, shown: Answer): Promise<void> {
  const deadline = Date.now() + 5_000
  for (;;) {
    const output = run(command)
    const { data } = JSON.parse(output) as Answer
    if (data?.value === shown.data?.value && isDeepStrictEqual(data?.breakdown, shown.data?.breakdown)) return
    if (Date.now() > deadline)
      throw new Error(`${command}\nanswered\n${output}\nbut the README shows\n${JSON.stringify(shown)}`)
    await pause(200)
  }
}
