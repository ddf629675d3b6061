import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from '@jest/globals'

/**
 * Compares a text byte for byte with `tests/golden/files/<name>`; a difference fails the test with a diff of lines.
 * With `UPDATE_GOLDEN=1` the text becomes the file instead, except in CI, where that is an error.
 */
export function expectGolden(name: string, text: string): void {
  const path = fileURLToPath(new URL(`./files/${name}`, import.meta.url))
  if (process.env.UPDATE_GOLDEN === '1') {
    if ((process.env.CI ?? '') !== '') throw new Error('golden files are not written in CI: unset UPDATE_GOLDEN')
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
    return
  }
  expect(text).toBe(readGolden(name, path))
}

function readGolden(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`the golden file ${name} can't be read: UPDATE_GOLDEN=1 writes it`, { cause: error })
  }
}

/** A text under its heading. */
export interface Block {
  heading: string
  text: string
}

/** Blocks as the text of a golden file. */
export function joinBlocks(blocks: readonly Block[]): string {
  return blocks.map(({ heading, text }) => `## ${heading}\n${text}\n`).join('\n')
}

const lineLengthMax = 200

/** JSON with line breaks where a value is longer than a line; see `lineJson`. */
export function prettyJson(value: unknown): string {
  return brokenLines(JSON.parse(lineJson(value)), '')
}

/** JSON in one line; big integers are texts with an `n`, maps are objects, nothing at all is null. */
export function lineJson(value: unknown): string {
  return JSON.stringify(value ?? null, plainValue)
}

function plainValue(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`
  if (value instanceof Map) return Object.fromEntries(value) as unknown
  return value
}

function brokenLines(value: unknown, indent: string): string {
  const line = JSON.stringify(value)
  const isFlat = Array.isArray(value) && value.every((item) => typeof item !== 'object')
  if (typeof value !== 'object' || value === null || isFlat || line.length <= lineLengthMax) return line
  const inner = `${indent} `
  const parts = Array.isArray(value)
    ? value.map((item) => brokenLines(item, inner))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${brokenLines(item, inner)}`)
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  return `${open}\n${parts.map((part) => inner + part).join(',\n')}\n${indent}${close}`
}

/** Generated ids and ports, which differ from run to run, as words. */
export function maskIds(text: string): string {
  return text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<uuid>')
    .replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1:<port>')
}
