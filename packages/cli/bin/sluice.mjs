#!/usr/bin/env node
// Starts main.ts, which needs a Node that runs TypeScript: the Node of the shell, or else the one that the installation
// of the repository brought. This file is plain JavaScript and imports only modules of Node, so that Node 18 can run
// it.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import module from 'node:module'
import { constants, homedir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath, URL } from 'node:url'

const nodeMajorMin = 24
const main = new URL('../main.ts', import.meta.url)

if (Number.parseInt(process.versions.node, 10) >= nodeMajorMin) {
  // Caches compiled code, so that the next start is faster. The folder must be the user's own, because its content is
  // executed.
  module.enableCompileCache(join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'sluice'))
  await import(main.href)
} else {
  const node = fileURLToPath(new URL('../../../node_modules/.bin/node', import.meta.url))
  if (existsSync(node)) runWith(node)
  else {
    process.stderr.write(
      `sluice: Node ${nodeMajorMin} or later is needed, this is ${process.versions.node}: install it, or run "npm run setup" in the repository.\n`,
    )
    process.exitCode = 1
  }
}

function runWith(node) {
  const child = spawn(node, [fileURLToPath(main), ...process.argv.slice(2)], { stdio: 'inherit' })
  // The terminal sends SIGINT to both processes, and the child handles it. Other signals reach this process alone.
  process.on('SIGINT', () => {})
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.once('error', (error) => {
    process.stderr.write(`sluice: ${node} could not be started: ${error.message}\n`)
    process.exit(1)
  })
  child.once('close', (code, signal) => {
    process.exit(signal === null ? (code ?? 1) : 128 + constants.signals[signal])
  })
}
