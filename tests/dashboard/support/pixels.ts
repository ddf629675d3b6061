import type { Page } from 'playwright-core'

/** The colours of points of the window, `255,255,255,255`. */
export async function coloursAt(page: Page, points: readonly (readonly [x: number, y: number])[]): Promise<string[]> {
  const png = (await page.screenshot({ animations: 'disabled' })).toString('base64')
  return page.evaluate<string[]>(`(async () => {
    const bytes = Uint8Array.from(atob('${png}'), (character) => character.charCodeAt(0))
    const bitmap = await createImageBitmap(new Blob([bytes]))
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d')
    context.drawImage(bitmap, 0, 0)
    return ${JSON.stringify(points)}.map(([x, y]) => context.getImageData(x, y, 1, 1).data.join())
  })()`)
}
