import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { EngineKind, HeldEngine } from './hold-engine.ts'

export interface EngineHolder extends HeldEngine {
  /** Ends the holder with SIGKILL, but not the engine. Resolves when the holder has ended. */
  killHolder(): Promise<void>
}

const file = fileURLToPath(new URL('hold-engine.ts', import.meta.url))

/**
 * For tests: another process that starts an engine in `dir`. Resolves when it runs; throws the output of a start that
 * failed.
 */
export async function holdEngine(kind: EngineKind, dir: string): Promise<EngineHolder> {
  const holder = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', file, kind, dir], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const gone = new Promise<void>((resolve) => holder.once('exit', () => resolve()))
  let output = ''
  let errors = ''
  holder.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  const held = await new Promise<HeldEngine>((resolve, reject) => {
    holder.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      if (output.endsWith('\n')) resolve(JSON.parse(output) as HeldEngine)
    })
    holder.once('close', () => reject(new Error(errors)))
  })
  return {
    ...held,
    killHolder: async () => {
      holder.kill('SIGKILL')
      await gone
    },
  }
}
