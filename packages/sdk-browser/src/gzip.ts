/** Compresses a text by gzip; undefined when the browser does not support it. */
export const gzip =
  typeof CompressionStream === 'undefined'
    ? undefined
    : (text: string): Promise<Blob> =>
        new Response(new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'))).blob()
