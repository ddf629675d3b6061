import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { findFreePort } from '../../support/free-port.ts'
import type { Shop } from './use-shop.ts'

const run = promisify(execFile)
const path = (relative: string): string => fileURLToPath(new URL(`../../../${relative}`, import.meta.url))

/** The example of Next.js: installed by its lock file, built and started as its readers do. */
export function testNextjs(shop: Shop): void {
  it('tracks the order of a page and of its route handler as one event', async () => {
    // Outside of this repository: Next.js takes the folder of the topmost lock file for its root.
    const folder = mkdtempSync(join(tmpdir(), 'sluice-nextjs-'))
    const { PATH, HOME } = process.env
    const port = await findFreePort()
    const url = `http://127.0.0.1:${port}`
    const env = {
      PATH,
      HOME,
      NEXT_TELEMETRY_DISABLED: '1',
      SHOP_URL: url,
      SLUICE_URL: shop.proxy.url,
      SLUICE_KEY: shop.key,
      SLUICE_BROWSER_KEY: shop.key,
    }
    const next = join(folder, 'node_modules', 'next', 'dist', 'bin', 'next')
    let server: ChildProcess | undefined
    try {
      cpSync(path('docs/sdk/examples/nextjs'), folder, {
        recursive: true,
        filter: (source) => !['node_modules', '.next'].includes(basename(source)),
      })
      const install = ['ci', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund']
      // With all variables: they may name the certificates or the proxy that npm needs.
      await run('npm', install, { cwd: folder })
      await run(process.execPath, [path('packages/sdk-node/build.ts'), join(folder, 'node_modules/@sluice/node')])
      // Without the variables: the build needs no key.
      await run(process.execPath, [next, 'build'], { cwd: folder, env: { PATH, HOME, NEXT_TELEMETRY_DISABLED: '1' } })
      server = spawn(process.execPath, [next, 'start', '-H', '127.0.0.1', '-p', String(port)], {
        cwd: folder,
        env,
        stdio: ['ignore', 'ignore', 'inherit'],
      })
      await waitUntil(async () => (await fetch(url).catch(() => undefined))?.ok === true, 'the shop answers')

      const { page, expectMessages } = await shop.visitors.open()
      expectMessages(/favicon\.ico/)
      await page.goto(url)
      await page.getByRole('link', { name: 'About us' }).click()
      await page.getByRole('heading', { name: 'About us' }).waitFor()
      await page.goBack()
      await page.getByRole('button', { name: 'Order' }).click()
      await page.getByText('Ordered', { exact: true }).waitFor()
      const { session_id } = await page.evaluate<{ session_id: string }>('sluice.context()')
      await page.evaluate('sluice.flush()')

      const views = await shop.sent(3, 'page_view')
      expect(views.map((view) => view.url)).toEqual([`${url}/`, `${url}/about`, `${url}/`])
      const orders = await shop.sent(2, 'purchase')
      expect(orders.map((order) => [order.event_id, order.session_id])).toEqual(
        orders.map(() => [orders[0]?.event_id, session_id]),
      )
      const stored = async () => (await shop.stored()).filter((row) => row.session_id === session_id)
      await waitUntil(async () => (await stored()).length >= 4, 'the visit is stored')
      expect((await stored()).map((row) => row.event_type).sort()).toEqual([
        'page_view',
        'page_view',
        'page_view',
        'purchase',
      ])
    } finally {
      if (server?.exitCode === null) {
        server.kill('SIGKILL')
        await once(server, 'exit')
      }
      rmSync(folder, { recursive: true, force: true })
    }
  })
}
