import { expect, test } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { mistakes } from './mistakes.ts'

test.each(mistakes.flatMap(({ name, edits }) => edits.map((edit) => ({ name, ...edit }))))(
  '$name: its place in $file is found',
  ({ file, from }) => {
    const text = readFileSync(fileURLToPath(new URL(`../../${file}`, import.meta.url)), 'utf8')
    expect(text.split(from)).toHaveLength(2)
  },
)
