import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { renderHtml } from './html-page.ts'

/** The values of the custom properties in a block of CSS, by their names. */
const propertiesOf = (css: string) =>
  new Map([...css.matchAll(/(--[\w-]+): ([^;}]+?)\s*[;}]/g)].map(([, name = '', value = '']) => [name, value]))

/** The custom properties of both themes: the first block for `:root` is that of the light one, the second dark. */
function themesOf(sheet: string) {
  const [light = '', dark = ''] = [...sheet.matchAll(/:root\b[^{]*\{[^}]*\}/g)].map(([block]) => block)
  return { light: propertiesOf(light), dark: propertiesOf(dark) }
}

test('the colours of pages without a script are those of the dashboard', () => {
  const own = themesOf(renderHtml({ title: '', style: '', body: '' }).text)
  const tokens = themesOf(readFileSync(new URL('../dashboard/src/styles/tokens.css', import.meta.url), 'utf8'))
  expect(own.light.size).toBeGreaterThan(0)
  expect([...own.dark.keys()]).toEqual([...own.light.keys()])
  for (const theme of ['light', 'dark'] as const) {
    for (const [name, value] of own[theme]) expect([theme, name, value]).toEqual([theme, name, tokens[theme].get(name)])
  }
})
