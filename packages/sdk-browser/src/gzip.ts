/** Compresses a text by gzip. Throws where there is no CompressionStream. */
export function gzip(text: string): Promise<Blob> {
  return new Response(new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'))).blob()
}
